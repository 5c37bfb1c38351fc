"""Storages as objects: the bytes that tensors share, without dtype (UntypedStorage) or with one (TypedStorage).

A storage object holds a vector of bytes over the memory, so that it keeps the memory alive and tensors' operators do
its work. Of one memory there is one UntypedStorage at a time.
"""

import sys
import warnings
from weakref import WeakValueDictionary

from . import _C

_known: WeakValueDictionary = WeakValueDictionary()  # by the memory's number


def _bytes_of(tensor):
    """A vector over all bytes of the tensor's memory."""
    _, n_bytes = _C.storage_key(tensor)
    return _C.tensor_on_storage(tensor.detach(), (n_bytes,), (1,), 0, _C.uint8)


def untyped(tensor) -> "UntypedStorage":
    """The storage of a tensor: the object that stands for it already, or a new one."""
    number, _ = _C.storage_key(tensor)
    known = _known.get(number)
    return known if known is not None else UntypedStorage._over(_bytes_of(tensor))


class UntypedStorage:
    """Bytes that tensors lie in: UntypedStorage(n), or of a sequence of numbers."""

    __module__ = "torch.storage"
    is_cuda = is_sparse = is_sparse_csr = is_hpu = False

    def __new__(cls, *args, device=None):
        if len(args) > 1:
            raise TypeError("torch.UntypedStorage(): expected a size or a sequence")
        given = args[0] if args else 0
        if isinstance(given, int):
            return cls._over(_C.empty((given,), dtype=_C.uint8, device=device))
        numbers = list(given)
        for item in numbers:
            if not isinstance(item, int):
                raise RuntimeError(
                    f"torch.UntypedStorage(): tried to construct a storage from a sequence ({type(given).__name__}), "
                    f"but one of the items was of type {type(item).__name__} instead of int"
                )
        return cls._over(_C.tensor([n & 255 for n in numbers], dtype=_C.uint8, device=device))

    @classmethod
    def _over(cls, vector):
        made = object.__new__(cls)
        made._hold(vector)
        return made

    def _hold(self, vector) -> None:
        before = getattr(self, "_vector", None)
        if before is not None and _known.get(_C.storage_key(before)[0]) is self:
            del _known[_C.storage_key(before)[0]]  # the number may come again
        self._vector = vector
        number, n_bytes = _C.storage_key(vector)
        if n_bytes:
            _known[number] = self

    @classmethod
    def from_buffer(cls, buffer, byte_order="native", count=-1, offset=0, *, dtype=None):
        """A copy of the bytes of `buffer`; those of a dtype of several bytes in the order of this machine."""
        return cls._over(_C.tensor_over(bytearray(_part(buffer, byte_order, count, offset, dtype)), _C.uint8))

    @classmethod
    def from_file(cls, filename, shared=False, nbytes=0):
        """The first bytes of a file, mapped: writes reach it if `shared`."""
        import mmap

        with open(filename, "r+b" if shared else "rb") as file:
            if shared:
                file.seek(0, 2)
                if file.tell() < nbytes:
                    file.truncate(nbytes)
            access = mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY
            return cls._over(_C.tensor_over(mmap.mmap(file.fileno(), nbytes, access=access), _C.uint8))

    # ---- what it is
    @property
    def device(self):
        return self._vector.device

    @property
    def is_cpu(self) -> bool:
        return self.device.type == "cpu"

    @property
    def _cdata(self) -> int:
        return _C.storage_key(self._vector)[0]

    def untyped(self):
        return self

    def nbytes(self) -> int:
        return self._vector.numel()

    def size(self) -> int:
        return self.nbytes()

    def __len__(self) -> int:
        return self.nbytes()

    def element_size(self) -> int:
        return 1

    def data_ptr(self) -> int:
        return self._vector.data_ptr()

    def get_device(self) -> int:
        return -1 if self.device.index is None else self.device.index

    def type(self, dtype=None, non_blocking=False):
        if dtype is None:
            return "torch.storage.UntypedStorage"
        raise NotImplementedError("UntypedStorage.type: cast the tensors that lie in it")

    def is_shared(self) -> bool:
        return False

    def is_pinned(self, device="cuda") -> bool:
        return False

    def share_memory_(self):
        raise NotImplementedError("share_memory_: memory that processes share is not there yet")

    def pin_memory(self, device="cuda"):
        raise NotImplementedError("pin_memory: there is no device that needs it")

    def __eq__(self, other) -> bool:
        return self is other

    __hash__ = object.__hash__

    # ---- elements
    def __getitem__(self, index):
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                raise RuntimeError(f"Trying to slice with a step of {step}, but only a step of 1 is supported")
            return type(self)._over(self._vector[start : max(start, stop)].clone())
        return self._vector[self._place(index)].item()

    def __setitem__(self, index, value) -> None:
        self._vector[index if isinstance(index, slice) else self._place(index)] = value

    def _place(self, index) -> int:
        if not isinstance(index, int):
            raise TypeError(f"can't index a torch.UntypedStorage with {type(index).__name__}")
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} out of range for storage of size {len(self)}")
        return index % len(self)

    def __iter__(self):
        return iter(self.tolist())

    def tolist(self) -> list:
        return self._vector.tolist()

    def fill_(self, value):
        self._vector.fill_(value)
        return self

    def copy_(self, source, non_blocking=None):
        other = _vector_of(source)
        if other.numel() != len(self):
            raise RuntimeError(f"size mismatch: {len(self)} bytes and {other.numel()} bytes")
        self._vector.copy_(other)
        return self

    def resize_(self, size: int):
        """Another number of bytes; not of a storage that tensors lie in."""
        if size == len(self):
            return self
        if _C.storage_users(self._vector) > 1:
            raise NotImplementedError("resize_: a storage in which tensors lie keeps its size: make a new tensor")
        vector, n = _C.empty((size,), dtype=_C.uint8, device=self.device), min(size, len(self))
        vector[:n] = self._vector[:n]
        self._hold(vector)
        return self

    def clone(self):
        return type(self)._over(self._vector.clone())

    def cpu(self):
        return self if self.is_cpu else type(self)._over(self._vector.cpu())

    def to(self, *, device, non_blocking=False):
        device = _C.device(device)
        return self if device.type == self.device.type else type(self)._over(self._vector.to(device))

    def new(self):
        return type(self)(device=self.device)

    def byteswap(self, dtype) -> None:
        """The bytes of each number of `dtype` the other way round; of a complex one each part's."""
        size = dtype.itemsize // (2 if dtype.is_complex else 1)
        self._vector.copy_(self._vector.clone().view(-1, size).flip(1).view(-1))

    def __copy__(self):
        return self.clone()

    def __deepcopy__(self, memo):
        memo = memo.setdefault("torch", {})
        key = self._cdata
        if key not in memo:
            memo[key] = self.clone()
        return memo[key]

    def __reduce__(self):
        return _from_bytes, (bytes(bytearray(self.tolist())),)

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes()

    def __str__(self) -> str:
        rows = "" if self.device.type == "meta" else "\n ".join(map(str, self.tolist()))
        return f" {rows}\n[torch.storage.UntypedStorage(device={self.device}) of size {len(self)}]"

    __repr__ = __str__


def _add_casts() -> None:
    """float(), int() ...: a TypedStorage with the bytes cast."""
    for name, dtype in _CASTS.items():

        def cast(self, _dtype=dtype):
            source = self._vector if isinstance(self, UntypedStorage) else self._tensor()
            return _typed(source.to(getattr(_C, _dtype), copy=True))

        setattr(UntypedStorage, name, cast)
        setattr(TypedStorage, name, cast)


_CASTS = {
    "float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16", "long": "int64", "int": "int32",
    "short": "int16", "char": "int8", "byte": "uint8", "bool": "bool", "complex_float": "complex64",
    "complex_double": "complex128",
}  # fmt: skip
_CLASSES = {
    "FloatStorage": "float32", "DoubleStorage": "float64", "HalfStorage": "float16", "BFloat16Storage": "bfloat16",
    "LongStorage": "int64", "IntStorage": "int32", "ShortStorage": "int16", "CharStorage": "int8",
    "ByteStorage": "uint8", "BoolStorage": "bool", "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128",
}  # fmt: skip


def _part(buffer, byte_order, count, offset, dtype) -> bytes:
    """The bytes that from_buffer takes, in this machine's order."""
    if byte_order not in ("native", "little", "big"):
        raise ValueError(f"invalid byte_order '{byte_order}' (expected 'big', 'little', or 'native')")
    size = 1 if dtype is None else dtype.itemsize
    data = memoryview(buffer).cast("B")
    if offset < 0 or offset > len(data):
        room = len(data)
        raise ValueError(f"offset must be non-negative and no greater than buffer length ({room}), but got {offset}")
    left = len(data) - offset
    if count < 0 and left % size:
        raise ValueError(f"buffer size ({left}) must be a multiple of element size ({size})")
    n = left if count < 0 else count * size
    if n > left:
        there = left // size
        raise ValueError(f"buffer has only {there} elements after offset {offset}, but specified a size of {count}")
    part = bytes(data[offset : offset + n])
    if size > 1 and byte_order not in ("native", sys.byteorder):
        part = b"".join(part[k : k + size][::-1] for k in range(0, n, size))
    return part


def _from_bytes(data: bytes) -> UntypedStorage:
    return UntypedStorage._over(_C.tensor_over(bytearray(data), _C.uint8))


def _from_typed(storage: UntypedStorage, dtype) -> "TypedStorage":
    return TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)


def _vector_of(source):
    if isinstance(source, TypedStorage):
        source = source._untyped_storage
    if not isinstance(source, UntypedStorage):
        raise TypeError(f"expected a storage, not {type(source).__name__}")
    return source._vector


_warned: list = []  # once is enough


def _reset_warn_typed_storage_removal() -> None:
    _warned.clear()


def _warn_typed_storage_removal(stacklevel: int = 2) -> None:
    if _warned:
        return
    _warned.append(True)
    message = (
        "TypedStorage is deprecated. It will be removed in the future and UntypedStorage will be the only storage "
        "class. This should only matter to you if you are using storages directly.  To access UntypedStorage directly, "
        "use tensor.untyped_storage() instead of tensor.storage()"
    )
    warnings.warn(message, UserWarning, stacklevel=stacklevel + 1)


class TypedStorage:
    """Numbers of one dtype over an UntypedStorage: TypedStorage(n or a sequence, dtype=...)."""

    __module__ = "torch.storage"
    is_sparse = False
    _dtype = None  # of the classes with a name

    def __init__(self, *args, wrap_storage=None, dtype=None, device=None, _internal=False) -> None:
        if not _internal:
            _warn_typed_storage_removal()
        self.dtype = dtype or self._dtype or _C.get_default_dtype()
        if wrap_storage is not None:
            if not isinstance(wrap_storage, UntypedStorage):
                raise TypeError(f"Argument 'wrap_storage' must be UntypedStorage, but got {type(wrap_storage)}")
            self._untyped_storage = wrap_storage
            return
        if len(args) > 1:
            raise TypeError(f"Too many positional arguments given: {len(args)}")
        given = args[0] if args else 0
        if isinstance(given, int):
            elements = _C.empty((given,), dtype=self.dtype, device=device)
        else:
            elements = _C.tensor(list(given), dtype=self.dtype, device=device)
        self._untyped_storage = untyped(elements)

    def _tensor(self):
        size = self._untyped_storage.nbytes() // self.dtype.itemsize
        return _C.tensor_on_storage(self._untyped_storage._vector, (size,), (1,), 0, self.dtype)

    @classmethod
    def from_buffer(cls, buffer, byte_order="native", count=-1, offset=0, *, dtype=None, device=None):
        dtype = dtype or cls._dtype or _C.get_default_dtype()
        return _from_typed(UntypedStorage.from_buffer(buffer, byte_order, count, offset, dtype=dtype), dtype)

    @classmethod
    def from_file(cls, filename, shared=False, size=0):
        dtype = cls._dtype or _C.get_default_dtype()
        return _from_typed(UntypedStorage.from_file(filename, shared, size * dtype.itemsize), dtype)

    def untyped(self) -> UntypedStorage:
        return self._untyped_storage

    @property
    def device(self):
        return self._untyped_storage.device

    is_cuda = False
    _cdata = property(lambda self: self._untyped_storage._cdata)

    def element_size(self) -> int:
        return self.dtype.itemsize

    def nbytes(self) -> int:
        return self._untyped_storage.nbytes()

    def size(self) -> int:
        return self.nbytes() // self.element_size()

    def __len__(self) -> int:
        return self.size()

    def data_ptr(self) -> int:
        return self._untyped_storage.data_ptr()

    def type(self, dtype=None, non_blocking=False):
        if dtype is None:
            return "torch." + self.pickle_storage_type()
        raise NotImplementedError("TypedStorage.type: cast the tensors that lie in it")

    def pickle_storage_type(self) -> str:
        """The name of the class for this dtype."""
        name = str(self.dtype).rpartition(".")[2]
        return next(known for known, dtype in _CLASSES.items() if dtype == name)

    def get_device(self) -> int:
        return self._untyped_storage.get_device()

    def is_shared(self) -> bool:
        return self._untyped_storage.is_shared()

    def is_pinned(self, device="cuda") -> bool:
        return False

    def share_memory_(self):
        return self._untyped_storage.share_memory_()

    def __getitem__(self, index):
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        if not isinstance(index, int):
            raise RuntimeError(f"can't index a {type(self)} with {type(index)}")
        return self._tensor()[self._place(index)].item()

    def __setitem__(self, index, value) -> None:
        self._tensor()[index if isinstance(index, slice) else self._place(index)] = value

    def _place(self, index: int) -> int:
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} out of range for storage of size {len(self)}")
        return index % len(self)

    def __iter__(self):
        return iter(self.tolist())

    def tolist(self) -> list:
        return self._tensor().tolist()

    def fill_(self, value):
        self._tensor().fill_(value)
        return self

    def copy_(self, source, non_blocking=None):
        if isinstance(source, TypedStorage):
            self._tensor().copy_(source._tensor())
        else:
            self._untyped_storage.copy_(source)
        return self

    def resize_(self, size: int):
        self._untyped_storage.resize_(size * self.element_size())
        return self

    def clone(self):
        return _from_typed(self._untyped_storage.clone(), self.dtype)

    def cpu(self):
        return self if self.device.type == "cpu" else _from_typed(self._untyped_storage.cpu(), self.dtype)

    def to(self, *, device, non_blocking=False):
        return _from_typed(self._untyped_storage.to(device=device), self.dtype)

    def __copy__(self):
        return self.clone()

    def __deepcopy__(self, memo):
        return _from_typed(self._untyped_storage.__deepcopy__(memo), self.dtype)

    def __reduce__(self):
        return _from_typed, (self._untyped_storage, self.dtype)

    def __str__(self) -> str:
        rows = "..." if self.device.type == "meta" else "\n ".join(map(str, self.tolist()))
        return f" {rows}\n[torch.storage.TypedStorage(dtype={self.dtype}, device={self.device}) of size {len(self)}]"

    __repr__ = __str__


def _typed(tensor) -> TypedStorage:
    return _from_typed(untyped(tensor), tensor.dtype)


class _Legacy(type):
    def __instancecheck__(cls, value) -> bool:
        return type(value) is TypedStorage and value.dtype is cls._dtype

    def __call__(cls, *args, wrap_storage=None, device=None):
        return TypedStorage(*args, wrap_storage=wrap_storage, dtype=cls._dtype, device=device, _internal=True)


for _name, _dtype in _CLASSES.items():
    globals()[_name] = _Legacy(_name, (TypedStorage,), {"_dtype": getattr(_C, _dtype), "__module__": "torch"})
_add_casts()


def is_storage(obj, /) -> bool:
    """Whether `obj` is a storage."""
    return isinstance(obj, (UntypedStorage, TypedStorage))


def set_(tensor, source=None, storage_offset=0, size=None, stride=None):
    """Tensor.set_: shows from now on the elements of a tensor or storage, those of `size` and `stride` if given."""
    if source is None:
        return tensor._take_place(_C.empty((0,), dtype=tensor.dtype, device=tensor.device))
    if is_storage(source):
        if isinstance(source, TypedStorage) and source.dtype is not tensor.dtype:
            kinds = f"{tensor.dtype} or an UntypedStorage"
            raise RuntimeError(f"Expected a Storage of type {kinds}, but got {source.dtype}")
        vector = _vector_of(source)
        if size is None:
            size, stride = (vector.numel() // tensor.itemsize - storage_offset,), (1,)
    elif size is None:
        vector, storage_offset, size, stride = source, source.storage_offset(), source.shape, source.stride()
        if source.dtype is not tensor.dtype:
            raise RuntimeError(f"Could not set tensor of type {source.dtype} to a tensor of type {tensor.dtype}")
    else:
        vector = source
    size = (size,) if isinstance(size, int) else tuple(size)
    if stride is None:
        stride, step = [], 1
        for n in reversed(size):
            stride.insert(0, step)
            step *= max(n, 1)
    return tensor._take_place(_C.tensor_on_storage(vector.detach(), size, tuple(stride), storage_offset, tensor.dtype))


NAMES = ("UntypedStorage", "TypedStorage", "is_storage", *_CLASSES)
__all__ = [*NAMES]
