"""Which of an exported graph's sizes may really change, together with which others, and within what bounds.

A graph says nothing about sizes by itself: it is fitted to inputs of other sizes (Graph.fit), which holds or does not.
What Python decided by a size is a check in the graph, and what an operator demands its shape rule tells, so that one
question answers for both. Sizes that only move together are one symbol; bounds are found by halving."""

import hashlib
import random

from .. import _C
from .._dynamo.exc import UserError, UserErrorType
from .._subclasses import FakeTensorMode
from ..fx.experimental.symbolic_shapes import ConstraintViolationError
from ._sizes import Expr
from .dynamic_shapes import INFINITE, Dim, _DerivedDim, _DimHintType

_FAR = 1_048_577  # a size without an upper bound is tried up to here
_TRIES = 12  # points at which a graph is looked at


class Variable:
    """A size, or several that are the same: value of its root symbol, and how each place follows from it."""

    def __init__(self, spec, source: str, value: int, low: int, high: int) -> None:
        self.spec, self.source, self.value, self.low, self.high = spec, source, value, low, high
        self.places: list = []  # (OpenSize, times, plus)
        self.step, self.moves, self.joined = 1, False, []
        self.symbol = ""

    @property
    def is_named(self) -> bool:
        return isinstance(self.spec, Dim)

    @property
    def is_auto(self) -> bool:
        return not self.is_named and self.spec.type is _DimHintType.AUTO

    @property
    def title(self) -> str:
        return f"{self.spec.__name__} = {self.source}" if self.is_named else self.source

    @property
    def short(self) -> str:
        return self.spec.__name__ if self.is_named else self.source


def _symbol_for(text: str, taken: set) -> str:
    number = int(hashlib.sha256(text.encode()).hexdigest(), 16) % 100
    while f"s{number}" in taken:
        number = (number + 1) % 1000
    taken.add(f"s{number}")
    return f"s{number}"


def variables_of(open_sizes: list, leaves: list) -> list:
    """A Variable for each named dimension and for each hint. ConstraintViolationError where an input is out of
    bounds."""
    named, found = {}, []
    for size in open_sizes:
        value = leaves[size.leaf].shape[size.dim or 0]
        times, plus, spec = 1, 0, size.spec
        if isinstance(spec, _DerivedDim):
            times, plus, spec = spec.times, spec.plus, spec.root
            if (value - plus) % times:
                raise UserError(
                    UserErrorType.CONSTRAINT_VIOLATION,
                    f"Expected input {size.source} = {value} to be of the form {size.spec.__name__}, where "
                    f"{spec.__name__} is an integer",
                )
            value = (value - plus) // times
        low, high = (spec.min, spec.max) if isinstance(spec, Dim) else _bounds_of(spec, size.dim is None)
        if not low <= value <= high:
            far = "int_oo" if high == INFINITE else high
            raise ConstraintViolationError(f"{value} not in range [{low}, {far}]")
        variable = named.get(spec.__name__) if isinstance(spec, Dim) else None
        if variable is None:
            variable = Variable(spec, size.source, value, low, high)
            found.append(variable)
            if isinstance(spec, Dim):
                named[spec.__name__] = variable
        elif variable.value != value:
            raise UserError(
                UserErrorType.CONSTRAINT_VIOLATION,
                f'Constraints violated ({spec.__name__})! For more information, run with TORCH_LOGS="+dynamic".\n'
                f"  - The values of {spec.__name__} = {variable.source} and {spec.__name__} = {size.source} must "
                f"always be equal.",
            )
        variable.places.append((size, times, plus))
    return found


def _bounds_of(hint, is_number: bool) -> tuple:
    low = (0 if is_number else 2) if hint.min is None else hint.min
    return low, INFINITE if hint.max is None else hint.max


class Question:
    """Asks the captured graph whether it holds for other values of the variables."""

    def __init__(self, captured, variables: list) -> None:
        self.graph, self.variables = captured.graph, variables
        self.values, self.leaves = list(captured.values), captured.aliases
        self.at = {id(leaf): k for k, leaf in enumerate(self.leaves) if isinstance(leaf, _C.TensorBase)}
        self.asked: dict = {}

    def leaves_at(self, point: dict, make) -> list:
        """The inputs with the sizes that follow from {variable: value}; make(tensor, size)."""
        sizes = {k: list(leaf.shape) for k, leaf in enumerate(self.leaves) if isinstance(leaf, _C.TensorBase)}
        changed = set()
        for variable in self.variables:
            value = point.get(variable, variable.value)
            for size, times, plus in variable.places:
                if sizes[size.leaf][size.dim or 0] != times * value + plus:
                    sizes[size.leaf][size.dim or 0] = times * value + plus
                    changed.add(size.leaf)
        return [make(leaf, sizes[k]) if k in changed else leaf for k, leaf in enumerate(self.leaves)]

    def fit(self, point: dict):
        """(graph, values of its numbers) there; None: it does not hold."""
        key = tuple(point.get(variable, variable.value) for variable in self.variables)
        if key not in self.asked:
            self.asked[key] = self._fit(point)
        return self.asked[key]

    def _fit(self, point: dict):
        try:
            return self.must_fit(point)
        except MemoryError:
            raise
        except Exception:  # whatever an operator says of such sizes
            return None

    def must_fit(self, point: dict):
        """The same; what does not hold raises."""
        if self.graph is None:
            return None, ()
        leaves = self.leaves_at(point, without_elements)
        inputs = tuple(leaves[self.at[id(value)]] if id(value) in self.at else value for value in self.values)
        return self.graph.fit(inputs, ())

    def holds(self, point: dict) -> bool:
        return self.fit(point) is not None


def without_elements(tensor, size: list):
    """A tensor of another size that is like it and has no elements."""
    order = sorted(range(tensor.ndim), key=lambda k: (tensor.stride(k), -k))
    strides, step = [0] * tensor.ndim, 1
    for k in order:
        strides[k] = step
        step *= max(size[k], 1)
    with FakeTensorMode():
        return _new(tensor, size, strides)


def _new(tensor, size: list, strides: list):
    import narthex

    made = narthex.empty_strided(size, strides, dtype=tensor.dtype, device=tensor.device)
    return made.requires_grad_() if tensor.requires_grad else made


def _steps(variable: Variable) -> list:
    """Other values for it, near ones first."""
    low = max(variable.low, 2)
    near = [variable.value + k for k in (1, 2, 3, -1, -2)] + [variable.value * k for k in (2, 3, 4)]
    return [value for value in dict.fromkeys(near) if low <= value <= variable.high and value != variable.value]


def solve(captured, open_sizes: list) -> "Solution":
    """What the graph allows; UserError where it is less than dynamic_shapes says."""
    variables = variables_of(open_sizes, captured.aliases)
    question = Question(captured, variables)
    classes = _Classes(question, variables)
    classes.find()
    problems = _Problems()
    for variable in classes.roots:
        problems.look_at(variable, classes)
    problems.tell()
    return Solution(question, classes)


class _Classes:
    """The variables that move, each with those that must move with it."""

    def __init__(self, question: Question, variables: list) -> None:
        self.question, self.variables = question, variables
        self.roots: list = []  # those that stand for a class, and those that do not move
        self.bounds: dict = {}

    def find(self) -> None:
        open_ones = [v for v in self.variables]
        while open_ones:
            variable = open_ones.pop(0)
            self.roots.append(variable)
            if variable.value < 2 and not any(size.dim is None for size, _, _ in variable.places):
                continue  # sizes of 0 and 1 are what they are
            group = self._group(variable, open_ones)
            if group is None:
                continue
            variable.moves, variable.joined = True, group
            for other in group:
                open_ones.remove(other)
            self._bound(variable)

    def _moved(self, variable: Variable, group: list, value: int) -> dict:
        return {each: value for each in (variable, *group)}

    def _holds(self, variable: Variable, group: list, value: int) -> bool:
        return self.question.holds(self._moved(variable, group, value))

    def _group(self, variable: Variable, others: list) -> list | None:
        """Those that must be the same; None: it does not move at all."""
        steps = _steps(variable)
        if not steps:
            return []
        if any(self._holds(variable, [], value) for value in steps):
            return []
        same = [other for other in others if other.value == variable.value]
        value = next((value for value in steps if self._holds(variable, same, value)), None)
        if value is None:
            return None
        for other in list(same):
            rest = [each for each in same if each is not other]
            if self._holds(variable, rest, value):
                same = rest
        return same

    def _bound(self, variable: Variable) -> None:
        """The bounds within which it holds, and the step in which it moves."""
        group = variable.joined
        low = max(max(each.low for each in (variable, *group)), 2)
        high = min(each.high for each in (variable, *group))
        near = [
            k for k in range(1, 65) if variable.value + k <= high and self._holds(variable, group, variable.value + k)
        ]
        if near and near[0] > 1 and all(k % near[0] == 0 for k in near):
            variable.step = near[0]
        self.bounds[variable] = (self._lowest(variable, low), self._highest(variable, high))

    def _lowest(self, variable: Variable, low: int) -> int:
        step, group = variable.step, variable.joined
        first = variable.value - (variable.value - low) // step * step
        if self._holds(variable, group, first):
            return first if step > 1 else low
        bad, good = first, variable.value
        while good - bad > step:
            middle = bad + (good - bad) // (2 * step) * step
            bad, good = (bad, middle) if self._holds(variable, group, middle) else (middle, good)
        return good

    def _highest(self, variable: Variable, high: int) -> int:
        step, group = variable.step, variable.joined
        last = min(high, max(_FAR, 2 * variable.value))
        last = variable.value + (last - variable.value) // step * step
        if last <= variable.value or self._holds(variable, group, last):
            return high
        good, bad = variable.value, last
        while bad - good > step:
            middle = good + (bad - good) // (2 * step) * step
            good, bad = (middle, bad) if self._holds(variable, group, middle) else (good, middle)
        return good


class _Problems:
    """What the program was told of sizes and does not hold, as PyTorch words it."""

    def __init__(self) -> None:
        self.names, self.lines, self.fixes = [], [], []

    def look_at(self, variable: Variable, classes: _Classes) -> None:
        if not variable.moves:
            if not variable.is_auto:
                self._specialised(variable)
            return
        for other in variable.joined:
            if variable.is_named and other.is_named:
                self._add(other, f"The values of {other.title} and {variable.title} must always be equal.",
                          f"{other.short} = {variable.short}", variable)  # fmt: skip
        low, high = classes.bounds[variable]
        for each in (variable, *variable.joined):
            if each.is_auto:
                continue
            if variable.step > 1:
                self._stepped(each, variable.step, low, high)
            elif low > max(each.low, 2) or high < each.high:
                self._bounded(each, low, high)

    def _add(self, variable: Variable, line: str, fix: str, *others) -> None:
        for each in (*others, variable):
            if each.short not in self.names:
                self.names.append(each.short)
        self.lines.append(line)
        if variable.is_named:
            self.fixes.append(fix)

    def _specialised(self, variable: Variable) -> None:
        self._add(
            variable,
            f"You marked {variable.short} as dynamic but your code specialized it to be a constant "
            f"({variable.value}). If you're "
            "using mark_dynamic, either remove it or use maybe_mark_dynamic. If you're using Dim.DYNAMIC, replace it "
            "with either "
            "Dim.STATIC or Dim.AUTO.",
            f"{variable.short} = {variable.value}",
        )

    def _bounded(self, variable: Variable, low: int, high: int) -> None:
        far = "IntInfinity()" if high == INFINITE else high
        new_low = f", min={low}" if low > max(variable.low, 2) else f", min={variable.low}" if variable.low > 2 else ""
        new_high = "" if high == INFINITE else f", max={high}"
        self._add(
            variable,
            f"Not all values of {variable.title} in the specified range satisfy the generated guard {low} <= "
            f"{variable.source} "
            f"and {variable.source} <= {far}",
            f"{variable.short} = Dim('{variable.short}'{new_low}{new_high})",
        )

    def _stepped(self, variable: Variable, step: int, low: int, high: int) -> None:
        name, rest = f"_{variable.short}", variable.value % step
        far = "oo" if high == INFINITE else (high - rest) // step
        plus = f" + {rest}" if rest else ""
        self._add(
            variable,
            f"Not all values of {variable.title} in the specified range satisfy the generated guard "
            f"{variable.source} % {step} == "
            f"{rest}.",
            f"{name} = Dim('{name}', min={max(1, (low - rest) // step)}, max={far})\n  {variable.short} = "
            f"{step}*{name}{plus}",
        )

    def tell(self) -> None:
        if not self.lines:
            return
        text = f'Constraints violated ({", ".join(self.names)})! For more information, run with TORCH_LOGS="+dynamic".'
        text += "".join(f"\n  - {line}" for line in self.lines)
        if self.fixes:
            text += "\nSuggested fixes:" + "".join(f"\n  {fix}" for fix in sorted(self.fixes))
        raise UserError(UserErrorType.CONSTRAINT_VIOLATION, text)


class Solution:
    """sizes: {(leaf, dim): Expr} of the open ones; ranges: {Expr: (low, high)}; points and fits: where the graph was
    looked at, [{symbol: value}] and [(graph, numbers)]; hints: {symbol: value} of the example inputs."""

    def __init__(self, question: Question, classes: _Classes) -> None:
        self.question, self.sizes, self.ranges, self.hints = question, {}, {}, {}
        taken: set = set()
        moving = [variable for variable in classes.roots if variable.moves]
        for variable in moving:
            derived = all(times != 1 or plus != 0 for _, times, plus in variable.places)
            variable.symbol = _symbol_for(f"_{variable.short}" if derived else variable.source, taken)
            symbol = Expr.symbol(variable.symbol)
            self.hints[variable.symbol] = variable.value
            low, high = classes.bounds[variable]
            given_low = max(each.low for each in (variable, *variable.joined))
            self.ranges[symbol] = (given_low if low == max(given_low, 2) and not derived else low, high)
            for each in (variable, *variable.joined):
                for size, times, plus in each.places:
                    self.sizes[size.leaf, size.dim] = symbol * times + plus
        self.moving, self.bounds = moving, classes.bounds
        self.points, self.fits, self.where = [], [], []
        self._look()

    def _look(self) -> None:
        draw = random.Random(0)
        self.question.asked[tuple(v.value for v in self.question.variables)] = self.question.must_fit({})
        self._look_at({})
        for _ in range(6 * _TRIES if self.moving else 0):
            if len(self.points) >= _TRIES:
                break
            point = {}
            for variable in self.moving:
                low, high = self.bounds[variable]
                first = variable.value - (variable.value - low) // variable.step * variable.step
                last = min(high, max(first, variable.value) + 97 * variable.step)
                value = first + draw.randrange((last - first) // variable.step + 1) * variable.step
                point.update({each: value for each in (variable, *variable.joined)})
            self._look_at(point)

    def _look_at(self, point: dict) -> None:
        named = {variable.symbol: point.get(variable, variable.value) for variable in self.moving}
        fit = self.question.fit(point)
        if fit is not None and named not in self.points:
            self.points.append(named)
            self.fits.append(fit)
            self.where.append(point)
