"""torch.finfo and torch.iinfo: what the numbers of a dtype can be; can_cast and result_type."""

from . import _C

# bits, exponent bits, digits after the point: from these follow the others
_FLOATS = {"float16": (16, 5, 10), "bfloat16": (16, 8, 7), "float32": (32, 8, 23), "float64": (64, 11, 52)}
_INTS = {"uint8": 8, "int8": 8, "int16": 16, "int32": 32, "int64": 64}


def _name(dtype) -> str:
    if not isinstance(dtype, _C.dtype):
        raise TypeError(f"finfo and iinfo take a torch.dtype, not {type(dtype).__name__}")
    return str(dtype).rpartition(".")[2]


class finfo:
    """Limits of a floating point dtype: bits, eps, max, min, tiny, smallest_normal, resolution."""

    def __init__(self, type=None) -> None:
        name = _name(_C.get_default_dtype() if type is None else type)
        if name not in _FLOATS:
            raise TypeError(f"torch.finfo() requires a floating point input type. Use torch.iinfo to handle '{name}'")
        self.bits, exponent, digits = _FLOATS[name]
        self.dtype, top = name, 2 ** (exponent - 1)
        self.eps, self.smallest_normal = 2.0**-digits, 2.0 ** (2 - top)
        self.max = (2 - self.eps) * 2.0 ** (top - 1)
        self.min, self.tiny = -self.max, self.smallest_normal
        self.resolution = 10.0 ** -int(digits * 0.30103)

    def __eq__(self, other) -> bool:
        return isinstance(other, finfo) and other.dtype == self.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __repr__(self) -> str:
        names = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")
        return f"finfo({', '.join(f'{name}={getattr(self, name):g}' for name in names)}, dtype={self.dtype})"


class iinfo:
    """Limits of an integer dtype: bits, max, min."""

    def __init__(self, type) -> None:
        name = _name(type)
        if name not in _INTS:
            raise TypeError(f"torch.iinfo() requires an integer input type. Use torch.finfo to handle '{name}'")
        self.bits, self.dtype = _INTS[name], name
        signed = name != "uint8"
        self.max = 2 ** (self.bits - signed) - 1
        self.min = -self.max - 1 if signed else 0

    def __eq__(self, other) -> bool:
        return isinstance(other, iinfo) and other.dtype == self.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"  # as PyTorch rounds them


def can_cast(from_, to) -> bool:
    """Whether a result of dtype `from_` may be written to a tensor of dtype `to`: no kind of number is lost."""
    for place, (name, given) in enumerate((("from_", from_), ("to", to)), 1):
        if not isinstance(given, _C.dtype):
            raise TypeError(
                f"can_cast(): argument '{name}' (position {place}) must be torch.dtype, not {type(given).__name__}"
            )
    if from_.is_floating_point:
        return to.is_floating_point
    return from_ is _C.bool or to is not _C.bool


def result_type(tensor1, tensor2) -> _C.dtype:
    """The dtype that an arithmetic operation of two tensors or numbers gives."""
    return (
        (_sample(tensor1) + _sample(tensor2)).dtype if _any_tensor(tensor1, tensor2) else _of_numbers(tensor1, tensor2)
    )


def _any_tensor(*values) -> bool:
    return any(isinstance(value, _C.TensorBase) for value in values)


def _sample(value):
    """A small thing that decides a dtype as `value` does: dimensions or none, or a number."""
    if isinstance(value, _C.TensorBase):
        return _C.zeros((0,) if value.ndim else (), dtype=value.dtype)
    return type(value)(0)


def _of_numbers(a, b) -> _C.dtype:
    kinds = {type(a), type(b)}
    return _C.get_default_dtype() if float in kinds else _C.int64 if int in kinds else _C.bool
