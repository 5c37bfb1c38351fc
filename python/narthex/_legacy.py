"""torch.Tensor(...), torch.FloatTensor and its kin: constructors, and names for isinstance, from before dtypes."""

from . import _C
from ._tensor import Tensor

_DTYPES = {
    "FloatTensor": "float32", "DoubleTensor": "float64", "HalfTensor": "float16", "BFloat16Tensor": "bfloat16",
    "LongTensor": "int64", "IntTensor": "int32", "ShortTensor": "int16", "CharTensor": "int8", "ByteTensor": "uint8",
    "BoolTensor": "bool",
}  # fmt: skip


class _Legacy(type):
    def __instancecheck__(cls, value) -> bool:
        return isinstance(value, Tensor) and value.dtype is cls.dtype and value.device.type == "cpu"

    def __call__(cls, *args, device=None):
        """Of sizes: without defined elements; of a sequence, an array or a tensor: its elements."""
        return tensor_like_before(cls.dtype, args)


def tensor_like_before(dtype, args: tuple):
    """What the constructor for `dtype` makes: no defined elements of sizes, else those of a sequence or tensor."""
    if len(args) == 1 and not isinstance(args[0], int):
        data = args[0]
        if isinstance(data, _C.Size):
            return _C.empty(tuple(data), dtype=dtype)
        if isinstance(data, _C.TensorBase):
            if data.dtype is not dtype:
                raise TypeError(f"expected {dtype} (got {data.dtype})")
            return data.detach()
        return _C.tensor(data, dtype=dtype)
    return _C.empty(args or (0,), dtype=dtype)


def dtype_of(kind):
    """The dtype that torch.FloatTensor and its kin, or their names, stand for; a dtype as it is."""
    if isinstance(kind, _Legacy):
        return kind.dtype
    if isinstance(kind, type):
        if issubclass(kind, _C.TensorBase):
            return _C.get_default_dtype()
        if isinstance(kind, _NoDevice):
            raise RuntimeError(f"type: there is no CUDA device for torch.cuda.{kind.__name__}")
        raise ValueError(f"invalid type: '{kind.__name__}'")
    if isinstance(kind, str) and kind.removeprefix("torch.cuda.") in _DTYPES and kind.startswith("torch.cuda."):
        raise RuntimeError(f"type: there is no CUDA device for {kind}")
    name = kind.removeprefix("torch.") if isinstance(kind, str) else None
    if isinstance(kind, str) and name not in _DTYPES:
        raise ValueError(f"invalid type: '{kind}'")
    return kind if name is None else getattr(_C, _DTYPES[name])


for _class, _dtype in _DTYPES.items():
    globals()[_class] = _Legacy(_class, (), {"dtype": getattr(_C, _dtype), "__module__": "torch"})
NAMES = tuple(_DTYPES)


class _NoDevice(type):
    """Of torch.cuda.FloatTensor and its kin: nothing is one."""

    def __instancecheck__(cls, value) -> bool:
        return False

    def __call__(cls, *args, **kwargs):
        name = f"torch.cuda.{cls.__name__}"
        raise TypeError(f"type {name} not available. Torch not compiled with CUDA enabled: Narthex has no CUDA device")


_cuda: dict = {}


def cuda_class(name: str) -> type:
    """torch.cuda's class of this name, always the same one."""
    return _cuda.setdefault(name, _NoDevice(name, (), {"__module__": "torch.cuda"}))
