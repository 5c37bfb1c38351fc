"""Sizes as expressions: sums of products of symbols and of quotients, with whole coefficients. `express` finds the one
that a size follows from what it is for several values of the symbols."""

import re
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import NamedTuple

from .. import _C


class Quotient(NamedTuple):
    """top // bottom, or top % bottom, as a factor."""

    sign: str
    top: "Expr"
    bottom: "Expr"

    def __str__(self) -> str:
        return f"({_inner(self.top)}{self.sign}{_inner(self.bottom)})"


def _inner(expr: "Expr") -> str:
    text = str(expr)
    return f"({text})" if not re.fullmatch(r"\w+", text) else text


class Expr:
    """terms: {factors: coefficient}; the factors, symbols' names and Quotients, in the order of their text."""

    def __init__(self, terms: dict) -> None:
        self.terms = {factors: number for factors, number in terms.items() if number}

    @staticmethod
    def symbol(name: str) -> "Expr":
        return Expr({(name,): 1})

    @staticmethod
    def of(value) -> "Expr":
        return value if isinstance(value, Expr) else Expr({(): int(value)})

    # ---- arithmetic
    def __add__(self, other) -> "Expr":
        terms = dict(self.terms)
        for factors, number in Expr.of(other).terms.items():
            terms[factors] = terms.get(factors, 0) + number
        return Expr(terms)

    def __mul__(self, other) -> "Expr":
        terms: dict = {}
        for left, number in self.terms.items():
            for right, times in Expr.of(other).terms.items():
                factors = tuple(sorted((*left, *right), key=str))
                terms[factors] = terms.get(factors, 0) + number * times
        return Expr(terms)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> "Expr":
        return self * -1

    def __sub__(self, other) -> "Expr":
        return self + -Expr.of(other)

    def __floordiv__(self, other) -> "Expr":
        other = Expr.of(other)
        if other.is_number and self.terms and all(number % other.number == 0 for number in self.terms.values()):
            return Expr({factors: number // other.number for factors, number in self.terms.items()})
        return Expr({(Quotient("//", self, other),): 1})

    def __mod__(self, other) -> "Expr":
        return Expr({(Quotient("%", self, Expr.of(other)),): 1})

    # ---- what it is
    @property
    def is_number(self) -> bool:
        return not self.terms or list(self.terms) == [()]

    @property
    def number(self) -> int:
        return self.terms.get((), 0)

    @property
    def name(self) -> str | None:
        """Of an expression that is one symbol."""
        factors = next(iter(self.terms), ())
        return factors[0] if self.terms == {factors: 1} and len(factors) == 1 and isinstance(factors[0], str) else None

    def value(self, of: dict) -> int:
        """The number for these values of the symbols."""
        total = 0
        for factors, number in self.terms.items():
            for factor in factors:
                if isinstance(factor, str):
                    number *= of[factor]
                else:
                    top, bottom = factor.top.value(of), factor.bottom.value(of)
                    number *= top // bottom if factor.sign == "//" else top % bottom
            total += number
        return total

    def __eq__(self, other) -> bool:
        return isinstance(other, (Expr, int)) and self.terms == Expr.of(other).terms

    def __hash__(self) -> int:
        return hash(frozenset(self.terms.items()))

    # ---- text
    def sorted_terms(self) -> list:
        """(factors, coefficient) in the order of the text: the number last."""
        return sorted(self.terms.items(), key=lambda item: (item[0] == (), tuple(map(str, item[0]))))

    def __str__(self) -> str:
        text = ""
        alone = len(self.terms) == 1
        for factors, number in self.sorted_terms():
            parts = [str(factor) if isinstance(factor, str) else f"({factor})" for factor in factors]
            if alone and number == 1 and len(factors) == 1:
                parts = [str(factors[0])]
            if abs(number) != 1 or not parts:
                parts.insert(0, str(abs(number)))
            if text:
                text += " - " if number < 0 else " + "
            elif number < 0:
                text = "-"
            text += "*".join(parts)
        return text or "0"

    __repr__ = __str__

    def serial(self) -> str:
        """As a file of an exported program spells it: calls of Add, Mul, Integer, Symbol and FloorDiv."""
        terms = []
        for factors, number in self.sorted_terms():
            parts = [_serial_factor(factor) for factor in factors]
            if number != 1 or not parts:
                parts.insert(0, f"Integer({number})")
            terms.append(parts[0] if len(parts) == 1 else f"Mul({', '.join(parts)})")
        return f"Add({', '.join(terms)})" if len(terms) > 1 else (terms or ["Integer(0)"])[0]


def _serial_factor(factor) -> str:
    if isinstance(factor, str):
        return f"Symbol('{factor}', positive=True, integer=True)"
    kind = "FloorDiv" if factor.sign == "//" else "PythonMod"
    return f"{kind}({factor.top.serial()}, {factor.bottom.serial()})"


# ---- reading
_TOKEN = re.compile(r"\s*(?:(-?\d+)|'(\w+)'|(\w+)|([(),=]))")
_LONGEST, _DEEPEST = 10_000, 50


def _calls():
    def product(*args):
        made = Expr.of(1)
        for arg in args:
            made = made * arg
        return made

    def power(base, exponent):
        if not exponent.is_number or not 0 <= exponent.number <= 16:
            raise ValueError("a power that is not there")
        return product(*[base] * exponent.number)

    return {
        "Add": lambda *args: sum(args, Expr({})),
        "Mul": product,
        "Pow": power,
        "FloorDiv": lambda a, b: a // b,
        "CleanDiv": lambda a, b: a // b,
        "Mod": lambda a, b: a % b,
        "PythonMod": lambda a, b: a % b,
        "Integer": lambda n: n,
    }


def parse(text: str) -> Expr:
    """The Expr that serial() wrote; ValueError for what is none, NotImplementedError for what is more. Nothing is
    executed."""
    if not isinstance(text, str) or len(text) > _LONGEST:
        raise ValueError("an expression of a size is too long")
    tokens, at = [], 0
    while at < len(text.rstrip()):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"an expression of a size has {text[at]!r} in it")
        tokens.append(match.groups())
        at = match.end()
    expr, end = _read(tokens, 0, _calls(), 0)
    if end != len(tokens):
        raise ValueError("an expression of a size goes on behind its end")
    return expr


def _read(tokens: list, at: int, calls: dict, depth: int) -> tuple:
    if at >= len(tokens) or depth > _DEEPEST:
        raise ValueError("an expression of a size ends too early, or is too deep")
    number, text, name, _ = tokens[at]
    if number is not None:
        return Expr.of(int(number)), at + 1
    if text is not None:
        return Expr.symbol(text), at + 1
    if name not in calls and name not in ("Symbol", "True", "False"):
        raise NotImplementedError(f"{name} in an expression of a size is not there")
    if name in ("True", "False"):
        return Expr.of(name == "True"), at + 1
    args, at = _read_arguments(tokens, at + 1, calls, depth)
    if name == "Symbol":
        if len(args) != 1 or args[0].name is None:
            raise ValueError("a symbol of a size has no name")
        return args[0], at
    try:
        return calls[name](*args), at
    except TypeError:
        raise ValueError(f"{name} in an expression of a size has other arguments") from None


def _read_arguments(tokens: list, at: int, calls: dict, depth: int) -> tuple:
    """The arguments without those that have a name, which say what a symbol may be."""
    args = []
    if at >= len(tokens) or tokens[at][3] != "(":
        raise ValueError("an expression of a size lacks a bracket")
    at += 1
    while at < len(tokens) and tokens[at][3] != ")":
        named = at + 1 < len(tokens) and tokens[at][2] is not None and tokens[at + 1][3] == "="
        value, at = _read(tokens, at + 2 if named else at, calls, depth + 1)
        if not named:
            args.append(value)
        if at < len(tokens) and tokens[at][3] == ",":
            at += 1
    if at >= len(tokens):
        raise ValueError("an expression of a size lacks a bracket")
    return args, at + 1


# ---- finding
class Finder:
    """Expressions for numbers of which it is known what they are at several points ({symbol: value})."""

    def __init__(self, points: list) -> None:
        self.points = points
        self.symbols = sorted({name for point in points for name in point})
        self.known: dict = {}  # by the values at the points
        self.n_unknown = 0
        for name in self.symbols:
            self._learn(Expr.symbol(name))

    def _learn(self, expr: Expr) -> Expr:
        self.known.setdefault(tuple(expr.value(point) for point in self.points), expr)
        return expr

    def express(self, values) -> "Expr | int | None":
        """The number or expression that has these values at the points; None: no simple one does."""
        values = tuple(values)
        if len(set(values)) == 1:
            return values[0]
        found = self.known.get(values)
        if found is None:
            found = self._polynomial(values, 1) or self._quotient(values) or self._of_known(values)
            found = found or self._polynomial(values, 2)
            if found is not None:
                self._learn(found)
        return found

    def unknown(self, values) -> Expr:
        """A symbol of its own for a number that no expression was found for."""
        values = tuple(values)
        if values not in self.known:
            self.known[values] = Expr.symbol(f"u{self.n_unknown}")
            self.n_unknown += 1
        return self.known[values]

    def sizes(self, results) -> "list | None":
        """The sizes of a result, given at each point, as expressions; None: it is no tensor, or they never differ."""
        if not isinstance(results[0], _C.TensorBase) or len(results) == 1:
            return None
        found = []
        for values in zip(*(result.shape for result in results)):
            size = self.express(values)
            found.append(self.unknown(values) if size is None else size)
        return found if any(isinstance(size, Expr) for size in found) else None

    def _polynomial(self, values: tuple, degree: int) -> Expr | None:
        basis = [factors for n in range(degree + 1) for factors in combinations_with_replacement(self.symbols, n)]
        if len(self.points) < len(basis) + (2 if degree > 1 else 0):
            return None
        rows = [[Fraction(Expr({f: 1}).value(point)) for f in basis] + [Fraction(v)]
                for point, v in zip(self.points, values)]  # fmt: skip
        numbers = _solve(rows, len(basis))
        if numbers is None or any(number.denominator != 1 for number in numbers):
            return None
        found = Expr({factors: int(number) for factors, number in zip(basis, numbers)})
        return found if self._fits(found, values) else None

    def _quotient(self, values: tuple) -> Expr | None:
        """(s + b) // d of a symbol."""
        for name in self.symbols:
            first = self.points[0][name]
            for divisor in range(2, 65):
                for rest in range(divisor):
                    b = values[0] * divisor - first + rest
                    if all((p[name] + b) // divisor == v for p, v in zip(self.points, values)):
                        whole, part = divmod(b, divisor)
                        if part:  # (s - 3) // 2 + 1 rather than (s - 1) // 2, as convolutions say it
                            whole, part = (1, b - divisor) if abs(b) < 2 * divisor else (whole + 1, part - divisor)
                        return (Expr.symbol(name) + part) // divisor + whole
        return None

    def _of_known(self, values: tuple) -> Expr | None:
        """A multiple, a part, or a product with a number, of what is known."""
        several = [(given, expr) for given, expr in self.known.items() if all(given)]
        for given, expr in several:
            if len({Fraction(v, g) for v, g in zip(values, given)}) == 1:
                times = Fraction(values[0], given[0])
                return expr * times.numerator // times.denominator if times.denominator != 1 else expr * times.numerator
            if len({v - g for v, g in zip(values, given)}) == 1:
                return expr + (values[0] - given[0])
        for k, (given, expr) in enumerate(several[:24]):
            for more, other in several[k:24]:
                if len({Fraction(v, g * m) for v, g, m in zip(values, given, more)}) == 1:
                    times = Fraction(values[0], given[0] * more[0])
                    if times.denominator == 1:
                        return expr * other * times.numerator
        return None

    def _fits(self, expr: Expr, values: tuple) -> bool:
        return all(expr.value(point) == value for point, value in zip(self.points, values))


def _solve(rows: list, n: int) -> list | None:
    """The numbers x[n] with row[:n] . x == row[n] for the first rows that decide them; None: they do not."""
    rows = [list(row) for row in rows]
    for column in range(n):
        pivot = next((k for k in range(column, len(rows)) if rows[k][column]), None)
        if pivot is None:
            return None
        rows[column], rows[pivot] = rows[pivot], rows[column]
        head = rows[column]
        for k, row in enumerate(rows):
            if k != column and row[column]:
                times = row[column] / head[column]
                rows[k] = [a - times * b for a, b in zip(row, head)]
    return [rows[k][n] / rows[k][k] for k in range(n)]
