"""torch.finfo and torch.iinfo: what the numbers of a dtype can be."""

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
