"""Tensors from numpy arrays and other buffers. numpy itself is imported only by what needs it."""

from . import _C
from ._tensor import Tensor


def from_numpy(ndarray) -> Tensor:
    """A tensor over the memory of a numpy array."""
    if type(ndarray).__module__ != "numpy" or not hasattr(ndarray, "__dlpack__"):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    if any(step < 0 for step in ndarray.strides):
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative strides are not "
            "currently supported. (You can probably work around this by making a copy of your array with array.copy().)"
        )
    if not ndarray.dtype.isnative:
        raise ValueError(
            "given numpy array has byte order different from the native byte order. Conversion between byte orders is "
            "currently not supported."
        )
    if not isinstance(getattr(_C, ndarray.dtype.name, None), _C.dtype):
        raise TypeError(
            f"can't convert np.ndarray of type numpy.{ndarray.dtype.type.__name__}. The only supported types are: "
            "float64, float32, float16, complex64, complex128, int64, int32, int16, int8, uint64, uint32, uint16, "
            "uint8, and bool."
        )
    if not ndarray.flags.writeable:
        # An array that must not be written to has no tensor over it: this one is a copy.
        ndarray = ndarray.copy()
    return _C.from_dlpack(ndarray)


class _Memory:
    """What numpy makes an array over; it keeps the tensor."""

    def __init__(self, tensor, dtype) -> None:
        self.tensor = tensor
        self.__array_interface__ = {
            "version": 3,
            "typestr": dtype.str,
            "shape": tuple(tensor.shape),
            "strides": tuple(step * dtype.itemsize for step in tensor.stride()),
            "data": (tensor.data_ptr(), False),
        }


def array_over(tensor):
    """A numpy array over the memory of a tensor on the CPU, which may be written to."""
    import numpy

    name = str(tensor.dtype).rpartition(".")[2]
    if name in ("bfloat16", "complex32") or name.startswith("float8"):
        raise TypeError(f"Got unsupported ScalarType {tensor.dtype.kind}")
    dtype = numpy.dtype(name)
    if tensor.numel() == 0:
        return numpy.empty(tuple(tensor.shape), dtype)
    return numpy.asarray(_Memory(tensor, dtype))


def _dtypes(data):
    """The dtypes of the numbers in nested sequences."""
    if isinstance(data, (list, tuple, range)):
        for item in data:
            yield from _dtypes(item)
    elif isinstance(data, _C.TensorBase):
        yield data.dtype
    elif type(data).__module__ == "numpy":
        yield getattr(_C, data.dtype.name)
    else:
        real = _C.get_default_dtype()
        for kind, dtype in ((bool, _C.bool), (int, _C.int64), (float, real), (complex, real.to_complex())):
            if isinstance(data, kind):
                yield dtype
                break


def _dtype_of(data):
    """What the numbers in nested sequences promote to; the default dtype if there are none."""
    found = None
    for dtype in _dtypes(data):
        found = dtype if found is None else found.promote(dtype)
    return _C.get_default_dtype() if found is None else found


def _one(tensor, dtype):
    """A tensor that stands for a number of `dtype`."""
    is_whole = not (dtype.is_floating_point or dtype.is_complex)
    if is_whole and (tensor.numel() != 1 or tensor.is_floating_point() or tensor.is_complex()):
        raise TypeError("only integer tensors of a single element can be converted to an index")
    if tensor.numel() != 1:
        raise ValueError("only one element tensors can be converted to Python scalars")
    return tensor


def _plain(data, dtype):
    """`data` with every tensor and array inside as Python numbers."""
    if isinstance(data, _C.TensorBase):
        return _one(data, dtype).item()
    if isinstance(data, (list, tuple, range)):
        return [_plain(item, dtype) for item in data]
    return data.tolist() if type(data).__module__ == "numpy" else data


def _stacked(data, dtype, device):
    if isinstance(data, (list, tuple)):
        items = [_stacked(item, dtype, device) for item in data]
        if any(item.shape != items[0].shape for item in items):
            raise ValueError(f"expected sequences of one length (got {[tuple(item.shape) for item in items]})")
        return _C.stack(items) if items else _C.empty(0, dtype=dtype, device=device)
    if isinstance(data, _C.TensorBase):
        return _one(data, dtype).detach().to(device, dtype).view(())
    return _C.full((), data, dtype=dtype, device=device)


def tensor_in_graph(data, *, dtype=None, device=None, pin_memory=False) -> Tensor:
    """torch.tensor of nested lists in which a graph computes some of the numbers, or tensors of one element."""
    if isinstance(data, _C.TensorBase):
        return tensor_of(data, dtype, device)
    dtype = _dtype_of(data) if dtype is None else dtype
    return _stacked(data, dtype, _C.get_default_device() if device is None else device)


def array_in_graph(data, *, dtype=None, device=None, pin_memory=False) -> Tensor:
    """torch.tensor of an array of numpy, over whose memory `data` is."""
    return data.clone().to(device=_C.get_default_device() if device is None else device, dtype=dtype)


def as_tensor(data, dtype=None, device=None) -> Tensor:
    """`data` as a tensor: itself, or over the memory of an array, where dtype and device allow it; else a copy."""
    if type(data).__module__ == "numpy":
        import numpy

        if isinstance(data, numpy.ndarray):
            data = from_numpy(data)
        elif hasattr(data, "__array__"):
            data = from_numpy(numpy.asarray(data))
    if isinstance(data, _C.TensorBase):
        return data.to(device=device, dtype=dtype)
    return _C.tensor(data, dtype=dtype, device=device)


def asarray(obj, *, dtype=None, device=None, copy=None, requires_grad: bool | None = None) -> Tensor:
    """`obj` as a tensor, over the same memory where that can be; `copy` True: never, False: or ValueError."""
    if type(obj).__name__ == "UntypedStorage":  # its bytes, as the numbers that they are
        obj = obj._vector if dtype is _C.uint8 else obj._vector.to(_C.int64)
    shares = isinstance(obj, _C.TensorBase) or type(obj).__module__ == "numpy" or hasattr(obj, "__dlpack__")
    if not shares and isinstance(obj, (bytearray, memoryview)):
        made = frombuffer(obj, dtype=dtype or _C.get_default_dtype())
        shares = True
    elif not isinstance(obj, _C.TensorBase) and type(obj).__module__ != "numpy" and shares:
        made = _C.from_dlpack(obj)
    else:
        made = as_tensor(obj)
    wanted = made.to(device=device, dtype=dtype)
    if copy is False and (not shares or wanted is not made):
        raise ValueError(f"asarray: copy=False, and a {type(obj).__name__} cannot be read so without a copy")
    if copy and shares and wanted is made:
        wanted = made.clone()
    if requires_grad is not None and requires_grad != wanted.requires_grad:
        wanted = wanted.detach().requires_grad_(requires_grad)
    return wanted


def _has_other(data) -> bool:
    if isinstance(data, (list, tuple)):
        return any(map(_has_other, data))
    return isinstance(data, (_C.TensorBase, range)) or type(data).__module__ == "numpy"


def tensor_of(data, dtype, device):
    """What torch.tensor makes of data that is no nested list of numbers: always a copy; None if it is nothing."""
    if not _has_other(data):
        return None
    if isinstance(data, _C.TensorBase):
        import warnings

        warnings.warn(
            "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
            "sourceTensor.detach().clone().requires_grad_(True), rather than torch.tensor(sourceTensor).",
            stacklevel=2,
        )
        return data.detach().to(device=device, dtype=dtype, copy=True)
    if type(data).__module__ == "numpy" and hasattr(data, "__array__"):
        return as_tensor(data, dtype, device).to(copy=True)
    dtype = _dtype_of(data) if dtype is None else dtype
    return _C.tensor(_plain(data, dtype), dtype=dtype, device=device)


def frombuffer(buffer, *, dtype, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Tensor:
    """A vector over the memory of a buffer that can be written to (bytearray, array, memoryview)."""
    from ._type_info import dtype_argument

    dtype = dtype_argument("frombuffer", "dtype", 2, dtype)
    bytes_ = memoryview(buffer).cast("B")
    n_bytes = len(bytes_) - offset
    if len(bytes_) == 0:
        raise ValueError(f"both buffer length ({len(bytes_)}) and count ({count}) must not be 0")
    if offset < 0 or n_bytes <= 0:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length ({len(bytes_)} bytes) - 1"
        )
    if bytes_.readonly:
        raise NotImplementedError("frombuffer: a buffer that cannot be written to is not there yet; use bytearray(...)")
    if count < 0 and n_bytes % dtype.itemsize:
        raise ValueError(
            f"buffer length ({n_bytes} bytes) after offset ({offset} bytes) must be a multiple of element size "
            f"({dtype.itemsize})"
        )
    n = n_bytes // dtype.itemsize if count < 0 else count
    if n * dtype.itemsize > n_bytes:
        raise ValueError(
            f"requested buffer length ({count} * {dtype.itemsize} bytes) after offset ({offset} bytes) must not be "
            f"greater than actual buffer length ({len(bytes_)} bytes)"
        )
    made = _C.tensor_over(bytes_[offset : offset + n * dtype.itemsize], dtype)
    return made.requires_grad_() if requires_grad else made
