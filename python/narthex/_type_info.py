"""torch.finfo and torch.iinfo: what the numbers of a dtype can be; can_cast and result_type."""

from math import log10

from . import _C


def dtype_argument(function: str, name: str, position: int, given) -> _C.dtype:
    """The dtype that an argument is or stands for."""
    if (dtype := _C.dtype_from(given)) is None:
        kind = type(given).__name__
        raise TypeError(f"{function}(): argument '{name}' (position {position}) must be torch.dtype, not {kind}")
    return dtype


def _name(dtype) -> str:
    return str(dtype).rpartition(".")[2]


class finfo:
    """Limits of a floating point dtype: bits, eps, max, min, tiny, smallest_normal, resolution.

    Those of a complex dtype are the limits of its parts."""

    def __init__(self, type=None) -> None:
        dtype = _C.get_default_dtype() if type is None else dtype_argument("finfo", "type", 1, type)
        name = _name(dtype)
        if not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(f"torch.finfo() requires a floating point input type. Use torch.iinfo to handle '{name}'")
        dtype = dtype.to_real()
        self.bits, self.dtype = 8 * dtype.itemsize, _name(dtype)
        self.max, self.eps, self.smallest_normal = dtype.limits
        self.min = -self.max if dtype.is_signed else self.smallest_normal
        self.tiny = self.smallest_normal
        self.resolution = 10.0 ** -int(-log10(self.eps))

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
        type = dtype_argument("iinfo", "type", 1, type)
        name = _name(type)
        if type.is_floating_point or type.is_complex:
            raise TypeError(f"torch.iinfo() requires an integer input type. Use torch.finfo to handle '{name}'")
        if type is _C.bool:
            raise TypeError("torch.bool is not supported by torch.iinfo")
        self.bits, self.dtype = 8 * type.itemsize, name
        self.max = 2 ** (self.bits - type.is_signed) - 1
        self.min = -self.max - 1 if type.is_signed else 0

    def __eq__(self, other) -> bool:
        return isinstance(other, iinfo) and other.dtype == self.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"  # as PyTorch rounds them


def promote_types(type1, type2) -> _C.dtype:
    """The dtype of a result of tensors of both."""
    type1, type2 = (dtype_argument("promote_types", f"type{k}", k, each) for k, each in ((1, type1), (2, type2)))
    return type1.promote(type2)


def can_cast(from_, to) -> bool:
    """Whether a result of dtype `from_` may be written to a tensor of dtype `to`: no kind of number is lost."""
    return dtype_argument("can_cast", "from_", 1, from_).casts_to(dtype_argument("can_cast", "to", 2, to))


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
    if complex in kinds:
        return _C.get_default_dtype().to_complex()
    return _C.get_default_dtype() if float in kinds else _C.int64 if int in kinds else _C.bool
