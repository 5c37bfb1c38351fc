"""Which sizes of an exported program's inputs may change: Dim and what stands beside it."""

import inspect
from enum import Enum, auto
from typing import NamedTuple

from .. import _C
from .._dynamo.exc import UserError, UserErrorType
from ..utils import _pytree as pytree

__all__ = [
    "AdditionalInputs",
    "Constraint",
    "Dim",
    "ShapesCollection",
    "dims",
    "refine_dynamic_shapes_from_suggested_fixes",
]

INFINITE = 2**63 - 1  # as an upper bound: there is none
_WHERE = (
    "For more information about this error, see: "
    "https://pytorch.org/docs/main/generated/exportdb/index.html#dynamic-shapes-validation"
)
_LINEAR = "(Only increasing linear operations with integer coefficients are supported.)"


class _DimHintType(Enum):
    AUTO = auto()
    STATIC = auto()
    DYNAMIC = auto()


class _DimHint:
    """AUTO: open where the program allows it; DYNAMIC: open, or an error; STATIC: the size that it is. Called with min
    and max it gives one with bounds."""

    def __init__(
        self, type: _DimHintType, min: int | None = None, max: int | None = None, _factory: bool = True
    ) -> None:
        self.type, self.min, self.max, self._factory = type, min, max, _factory

    @staticmethod
    def AUTO() -> "_DimHint":
        return _DimHint(_DimHintType.AUTO)

    @staticmethod
    def DYNAMIC() -> "_DimHint":
        return _DimHint(_DimHintType.DYNAMIC)

    @staticmethod
    def STATIC() -> "_DimHint":
        return _DimHint(_DimHintType.STATIC)

    def __call__(self, min: int | None = None, max: int | None = None) -> "_DimHint":
        if not self._factory:
            raise TypeError(f"'{type(self)}' object is not callable")
        if min is not None and min < 0:
            raise AssertionError("min must be non-negative")
        if max is not None and max < 0:
            raise AssertionError("max must be non-negative")
        if min is not None and max is not None and min > max:
            raise AssertionError("min must be <= max")
        return _DimHint(self.type, min, max, _factory=False)

    def __repr__(self) -> str:
        bounds = "".join(
            f", {name}={value}" for name, value in (("min", self.min), ("max", self.max)) if value is not None
        )
        return f"DimHint({self.type.name}{bounds})"

    def __eq__(self, other) -> bool:
        return isinstance(other, _DimHint) and (self.type, self.min, self.max) == (other.type, other.min, other.max)

    __hash__ = None


class Dim:
    """A size with a name and bounds: dimensions that name the same one have the same size. 2 * dim, dim + 1 and so on
    are sizes that follow from it."""

    AUTO, DYNAMIC, STATIC = _DimHint.AUTO(), _DimHint.DYNAMIC(), _DimHint.STATIC()

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        low, high = 0 if min is None else min, INFINITE if max is None else max
        if high < low:
            raise AssertionError(f"Cannot create Dim with inconsistent min={min}, max={max}")
        if not name.isidentifier():
            raise AssertionError(f"Dim name must be a valid identifier, got {name}")
        self.__name__, self.min, self.max = name, low, high

    def _linear(self, times: int, plus: int) -> "Dim":
        return _DerivedDim(self, times, plus)

    def __add__(self, other) -> "Dim":
        if type(other) is not int:
            raise NotImplementedError(
                f"Attempted to add {other} to {self.__name__}, where an integer was expected. {_LINEAR}"
            )
        return self._linear(1, other)

    __radd__ = __add__

    def __sub__(self, other) -> "Dim":
        if type(other) is not int:
            text = f"Attempted to subtract {other} from {self.__name__}, where an integer was expected. {_LINEAR}"
            raise NotImplementedError(text)
        return self._linear(1, -other)

    def __rsub__(self, other) -> "Dim":
        raise NotImplementedError(f"Attempted to negate {self.__name__}. {_LINEAR}")

    def __mul__(self, other) -> "Dim":
        if type(other) is not int or other <= 0:
            text = (
                f"Attempted to multiply {other} with {self.__name__}, where a positive integer was expected. {_LINEAR}"
            )
            raise NotImplementedError(text)
        return self._linear(other, 0)

    __rmul__ = __mul__

    def __repr__(self) -> str:
        low = "" if self.min == 2 else f", min={self.min}"
        high = "" if self.max == INFINITE else f", max={self.max}"
        return f"Dim('{self.__name__}'{low}{high})"


class _DerivedDim(Dim):
    """times * root + plus."""

    def __init__(self, root: Dim, times: int, plus: int) -> None:
        self.root, self.times, self.plus = root, times, plus
        low, high = times * root.min + plus, INFINITE if root.max == INFINITE else times * root.max + plus
        head = root.__name__ if times == 1 else f"{times}*{root.__name__}"
        tail = "" if plus == 0 else f" + {plus}" if plus > 0 else f" - {-plus}"
        self.__name__, self.min, self.max = head + tail, low, high

    def _linear(self, times: int, plus: int) -> Dim:
        return _DerivedDim(self.root, self.times * times, self.plus * times + plus)

    def __repr__(self) -> str:
        return self.__name__


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple:
    """A Dim for each of the names."""
    return tuple(Dim(name, min=min, max=max) for name in names)


class Constraint:
    """What a program demands of a size; programs ask isinstance."""


class OpenSize(NamedTuple):
    """One size that may change: leaf number `leaf` of the inputs, its dimension `dim` (None: the leaf is the number
    itself), the Dim or hint that says so, and what errors call it."""

    leaf: int
    dim: int | None
    spec: object
    source: str


class _Reader:
    """Reads dynamic_shapes beside the inputs."""

    def __init__(self) -> None:
        self.n_leaves, self.found = 0, []

    def walk(self, value, spec, path: tuple, source: str) -> None:
        if isinstance(value, _C.TensorBase) or pytree.tree_is_leaf(value):
            self._leaf(value, spec, path, source)
            self.n_leaves += 1
            return
        kind = pytree._get_node_type(value)
        children, _ = pytree.SUPPORTED_NODES[kind].flatten_fn(value)
        children = list(children)
        keys = list(value) if isinstance(value, dict) else range(len(children))
        if spec is None:
            specs = [None] * len(children)
        elif isinstance(value, dict):
            specs = self._of_dict(value, spec, path)
        else:
            specs = self._of_sequence(value, children, spec, path)
        for key, child, each in zip(keys, children, specs):
            self.walk(child, each, (*path, key), f"{source}[{key!r}]")

    def _of_dict(self, value: dict, spec, path: tuple) -> list:
        if not isinstance(spec, dict) or set(spec) != set(value):
            given = list(spec) if isinstance(spec, dict) else type(spec)
            raise _invalid(
                f"Detected mismatch between the structure of `inputs{_keys(path)}` and `dynamic_shapes{_keys(path)}`: "
                f"`inputs{_keys(path)}` has keys {list(value)}, but `dynamic_shapes{_keys(path)}` has {given}\n{_WHERE}"
            )
        return [spec[key] for key in value]

    def _of_sequence(self, value, children: list, spec, path: tuple) -> list:
        if isinstance(spec, dict) and not isinstance(value, (list, tuple)):
            return list(spec.values())
        if not isinstance(spec, (list, tuple)):
            raise _invalid(
                f"Detected mismatch between the structure of `inputs{_keys(path)}` and `dynamic_shapes{_keys(path)}`: "
                f"`inputs{_keys(path)}` is a {type(value)}, but `dynamic_shapes{_keys(path)}` is a "
                f"{type(spec)}\n{_WHERE}"
            )
        if len(spec) != len(children):
            raise _invalid(
                f"Detected mismatch between the structure of `inputs{_keys(path)}` and `dynamic_shapes{_keys(path)}`: "
                f"`inputs{_keys(path)}` has {len(children)} elements, but `dynamic_shapes{_keys(path)}` has "
                f"{len(spec)} "
                f"elements\n{_WHERE}"
            )
        return list(spec)

    def _leaf(self, value, spec, path: tuple, source: str) -> None:
        if spec is None:
            return
        if not isinstance(value, _C.TensorBase):
            if isinstance(spec, _DimHint) and type(value) is int:
                self._add(None, spec, source, value)
            elif not (isinstance(spec, _DimHint) or spec is None):
                raise _invalid(
                    f"Cannot associate shape {spec} specified at `dynamic_shapes{_keys(path)}` to non-tensor type "
                    f"{type(value)} at `inputs{_keys(path)}` (expected None)\n{_WHERE}"
                )
            return
        if isinstance(spec, dict):
            rows = list(spec.items())
        elif isinstance(spec, (list, tuple)):
            if len(spec) != value.ndim:
                raise _invalid(
                    f"Expected dynamic shape spec {spec} specified at `dynamic_shapes{_keys(path)}` to have the same "
                    f"length "
                    f"as the actual tensor shape {value.shape} (expected {value.ndim}, but got {len(spec)} "
                    f"instead)\n{_WHERE}"
                )
            rows = list(enumerate(spec))
        else:
            raise _invalid(
                f"Unexpected input tensor shape {spec} specified at `dynamic_shapes{_keys(path)}` (expected either a "
                f"list/tuple "
                "of dimensions, or a dict mapping indices to dimensions, where each dimension is an int, a Dim, "
                "Dim.AUTO, "
                f"Dim.STATIC, or Dim.DYNAMIC)\n{_WHERE}"
            )
        for dim, each in rows:
            self._dimension(value, spec, dim, each, path, source)

    def _dimension(self, value, spec, dim, each, path: tuple, source: str) -> None:
        if each is None:
            return
        if not isinstance(each, (int, Dim, _DimHint)):
            raise _invalid(
                f"Unexpected dimension mapped to index {dim} in input tensor shape {spec} specified at "
                f"`dynamic_shapes{_keys(path)}` (expected None, an int, a Dim, Dim.AUTO, Dim.STATIC, or Dim.DYNAMIC, "
                f" but got "
                f"{each!r} instead)\n{_WHERE}"
            )
        if not -value.ndim <= dim < value.ndim:
            raise IndexError("list assignment index out of range")
        dim %= value.ndim
        self._add(dim, each, f"{source}.size()[{dim}]", value.shape[dim])

    def _add(self, dim, spec, source: str, size: int) -> None:
        from ..fx.experimental.symbolic_shapes import ConstraintViolationError

        if type(spec) is int:
            if spec != size:
                raise ConstraintViolationError(
                    f"Static shape constraint of {spec} does not match input size of {size}, for {source}"
                )
        elif not (isinstance(spec, _DimHint) and spec.type is _DimHintType.STATIC):
            self.found.append(OpenSize(self.n_leaves, dim, spec, source))


def _invalid(text: str) -> UserError:
    return UserError(UserErrorType.INVALID_INPUT, text)


def _keys(path: tuple) -> str:
    return "".join(f"[{key!r}]" for key in path)


def combined(mod, args: tuple, kwargs: dict) -> dict:
    """The arguments by the names of forward's parameters, those in ** by their own."""
    forward = mod.forward if hasattr(mod, "forward") else mod
    bound = inspect.signature(forward).bind(*args, **kwargs)
    found: dict = {}
    for name, value in bound.arguments.items():
        if bound.signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            found.update(value)
        else:
            found[name] = value
    return found


def _check_names(spec, names: list) -> dict:
    if isinstance(spec, dict):
        if set(spec) != set(names):
            raise _invalid(
                f"When `dynamic_shapes` is specified as a dict, its top-level keys must be the arg names {names} of "
                f"`inputs`, "
                f"but here they are {list(spec)}. Alternatively, you could also ignore arg names entirely and specify "
                f"`dynamic_shapes` as a list/tuple matching `inputs`. {_WHERE}"
            )
        return {name: spec[name] for name in names}
    if not isinstance(spec, (list, tuple)):
        raise _invalid(f"Expected `dynamic_shapes` to be a dict, list or tuple, got {type(spec)}\n{_WHERE}")
    if len(spec) != len(names):
        raise _invalid(
            "Detected mismatch between the structure of `inputs` and `dynamic_shapes`: "
            f"`inputs` has {len(names)} elements, but `dynamic_shapes` has {len(spec)} elements\n{_WHERE}"
        )
    return dict(zip(names, spec))


def _check_one_definition(found: list) -> None:
    known: dict = {}
    for size in found:
        dim = size.spec
        dim = dim.root if isinstance(dim, _DerivedDim) else dim
        if not isinstance(dim, Dim):
            continue
        first = known.setdefault(dim.__name__, dim)
        if (first.min, first.max) != (dim.min, dim.max):
            raise _invalid(f"Found different definitions {first} and {dim} for the same symbolic dimension {dim}!")


def read(mod, args: tuple, kwargs: dict, dynamic_shapes) -> list:
    """The OpenSizes among the leaves of (args, kwargs), in the order of forward's arguments."""
    if dynamic_shapes is None or (isinstance(dynamic_shapes, (dict, list, tuple)) and not dynamic_shapes):
        return []
    if isinstance(dynamic_shapes, (ShapesCollection, AdditionalInputs)):
        dynamic_shapes = dynamic_shapes.dynamic_shapes(mod, args, kwargs)
    inputs = combined(mod, args, kwargs)
    specs, reader = _check_names(dynamic_shapes, list(inputs)), _Reader()
    for name, value in inputs.items():
        reader.walk(value, specs[name], (name,), f"L[{name!r}]")
    _check_one_definition(reader.found)
    return reader.found


class ShapesCollection:
    """dynamic_shapes by tensor: shapes[x] = {0: dim} or shapes[x][0] = dim, wherever x stands among the inputs."""

    def __init__(self) -> None:
        self._shapes, self._tensors = {}, {}

    def __setitem__(self, t, shape) -> None:
        if not isinstance(t, (_C.TensorBase, int)):
            raise AssertionError(f"Cannot assign shape to non-tensor or non-int type {type(t)}")
        if id(t) in self._shapes and self._shapes[id(t)] is not shape:
            raise AssertionError(f"Shapes assigned to input do not match: {shape} and {self._shapes[id(t)]}")
        self._shapes[id(t)], self._tensors[id(t)] = shape, t

    def __getitem__(self, t):
        if id(t) not in self._shapes:
            self[t] = {}
        return self._shapes[id(t)]

    def __len__(self) -> int:
        return len(self._shapes)

    def dynamic_shapes(self, m, args: tuple, kwargs: dict | None = None) -> dict:
        """The same as a tree over the module's arguments."""
        seen = set()

        def shape_of(leaf):
            seen.add(id(leaf))
            return self._shapes.get(id(leaf))

        inputs = combined(m, args, kwargs or {})
        found = {name: pytree.tree_map(shape_of, value) for name, value in inputs.items()}
        missing = [t for key, t in self._tensors.items() if key not in seen]
        if missing:
            raise ValueError(
                f"Some tensors that were assigned shapes were not found in args: "
                f"{[tuple(t.shape) for t in missing]}: the same "
                "objects must stand among the inputs"
            )
        return found


class AdditionalInputs:
    """dynamic_shapes by example: a size that is another one in any of the inputs added is open."""

    def __init__(self) -> None:
        self._examples: list = []

    def add(self, args: tuple, kwargs: dict | None = None) -> None:
        """One more set of inputs."""
        if type(args) is not tuple:
            raise AssertionError(f"Representative args {args} must be a tuple")
        if kwargs is not None and type(kwargs) is not dict:
            raise AssertionError(f"Representative kwargs {kwargs} must be None or a dict")
        self._examples.append((args, kwargs))

    def dynamic_shapes(self, m, args: tuple, kwargs: dict | None = None):
        """The tree over the module's arguments: Dim.DYNAMIC where sizes, or whole numbers, differ."""
        first, *more = [combined(m, a, k or {}) for a, k in [(args, kwargs), *self._examples]]
        leaves, spec = pytree.tree_flatten(first)
        columns = [leaves]
        for other in more:
            found, other_spec = pytree.tree_flatten(other)
            if other_spec != spec:
                raise ValueError(f"Additional inputs have another structure: {other_spec}, not {spec}")
            columns.append(found)
        return pytree.tree_unflatten([self._shape(column) for column in zip(*columns)], spec)

    @staticmethod
    def _shape(column: tuple):
        if all(isinstance(value, _C.TensorBase) for value in column):
            if len({value.ndim for value in column}) != 1:
                raise ValueError(f"Different number of dimensions: {[tuple(value.shape) for value in column]}")
            sizes = zip(*(value.shape for value in column))
            return tuple(Dim.DYNAMIC if len(set(each)) > 1 else None for each in sizes)
        if all(type(value) is int for value in column):
            return Dim.DYNAMIC if len(set(column)) > 1 else None
        if any(value != column[0] for value in column):
            raise ValueError(f"The following inputs differ and are neither tensors nor whole numbers: {column}")
        return None

    def verify(self, ep) -> None:
        """Runs the program on all inputs that were added."""
        module = ep.module()
        for args, kwargs in self._examples:
            module(*args, **(kwargs or {}))


def refine_dynamic_shapes_from_suggested_fixes(msg: str, dynamic_shapes):
    """dynamic_shapes with the sizes that the "Suggested fixes" of an error name: "b = 4", "c = b", "b = Dim('b',
    min=4)", "b = 2*_b"."""
    import re

    from .._dynamo.exc import UserError

    if "Suggested fixes:" not in msg:
        raise UserError(UserErrorType.INVALID_INPUT, "Suggested fixes not found in error message given to "
                        "refine_dynamic_shapes_from_suggested_fixes()")  # fmt: skip
    fixes: dict = {}
    for line in msg.split("Suggested fixes:")[1].strip().splitlines():
        name, sign, text = line.strip().partition(" = ")
        if sign:
            fixes[name] = text.strip()
    known = {dim.__name__: dim for dim in _all_dims(dynamic_shapes)}

    def made(text: str):
        if re.fullmatch(r"\d+", text):
            return int(text)
        if match := re.fullmatch(r"Dim\('(\w+)'((?:, (?:min|max)=\w+)*)\)", text):
            bounds = dict(part.split("=") for part in match[2].split(", ") if part)
            return Dim(match[1], **{key: int(value) for key, value in bounds.items() if value.isdigit()})
        if match := re.fullmatch(r"(?:(\d+)\*)?(\w+)(?: ([+-]) (\d+))?", text):
            root = made(fixes[match[2]]) if match[2] in fixes else known.get(match[2]) or Dim(match[2])
            plus = int(match[4] or 0) * (-1 if match[3] == "-" else 1)
            return root if not match[1] and not plus else root * int(match[1] or 1) + plus
        raise UserError(
            UserErrorType.INVALID_INPUT, f"refine_dynamic_shapes_from_suggested_fixes: {text!r} is not understood"
        )

    def fixed(spec):
        if isinstance(spec, Dim) and spec.__name__ in fixes:
            return made(fixes[spec.__name__])
        return spec

    leaf = lambda x: isinstance(x, (Dim, _DimHint)) or x is None  # noqa: E731
    return pytree.tree_map(fixed, dynamic_shapes, is_leaf=leaf)


def _all_dims(dynamic_shapes) -> list:
    leaves = pytree.tree_leaves(dynamic_shapes, is_leaf=lambda x: isinstance(x, Dim))
    dims = [leaf for leaf in leaves if isinstance(leaf, Dim)]
    return [dim.root if isinstance(dim, _DerivedDim) else dim for dim in dims]
