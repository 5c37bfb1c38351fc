"""The dtypes of which there are no tensors here: packed integers, bits, quantised numbers. Programs name them in tables
of all dtypes. Each is a `torch.dtype` to isinstance; a tensor of one is refused by the argument that names it."""

from . import _C


class named_dtype:
    """A dtype's name and facts; one object each."""

    def __init__(self, name: str, itemsize: int, abbr: str, is_signed, is_floating_point: bool = False) -> None:
        self._name, self.itemsize, self.abbr, self._signed = name, itemsize, abbr, is_signed
        self.is_floating_point, self.is_complex = is_floating_point, False

    __class__ = property(lambda self: _C.dtype)

    @property
    def is_signed(self) -> bool:
        """Whether it has negative numbers; PyTorch does not say so of bits and quantised numbers."""
        if isinstance(self._signed, str):
            raise RuntimeError(self._signed)
        return self._signed

    def to_real(self):
        """Itself."""
        return self

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self):
        return self._name


_BITS, _QUANTISED = "Bits types are undefined", "isSignedType not supported for quantized types"
NAMED = {
    **{f"int{n}": (1, f"int{n}", True) for n in range(1, 8)},
    **{f"uint{n}": (1, f"uint{n}", False) for n in range(1, 8)},
    **{f"bits{n}": (1, f"b{n}", _BITS) for n in ("1x8", "2x4", "4x2")},
    "bits8": (1, "b8x1", _BITS),
    "bits16": (2, "b16x1", _BITS),
    "float4_e2m1fn_x2": (1, "f4e2m1fnx2", True, True),
    **{name: (1, name, _QUANTISED) for name in ("qint8", "quint8", "quint4x2", "quint2x4")},
    "qint32": (4, "qint32", _QUANTISED),
}
NAMED = {name: named_dtype(name, *facts) for name, facts in NAMED.items()}
NAMED["bit"] = NAMED["uint1"]
