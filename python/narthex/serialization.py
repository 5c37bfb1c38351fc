"""torch.save and torch.load: PyTorch's checkpoint files, a zip of a pickle (data.pkl) and one entry for each storage.

What is written loads in PyTorch with weights_only=True and the other way round. Reading never imports or calls what a
file names (_read_pickle.py), whatever `weights_only` says: a file with objects of other classes is refused by name.
"""

import io
import os
import pickle
import sys
import zipfile
from collections import Counter, OrderedDict, defaultdict
from contextlib import contextmanager, suppress

from . import _C
from ._read_pickle import Global, read
from .nn.parameter import Parameter

_STORAGES = {
    "FloatStorage": "float32", "DoubleStorage": "float64", "HalfStorage": "float16", "BFloat16Storage": "bfloat16",
    "LongStorage": "int64", "IntStorage": "int32", "ShortStorage": "int16", "CharStorage": "int8",
    "ByteStorage": "uint8", "BoolStorage": "bool", "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128", "UntypedStorage": "",
}  # fmt: skip
_STORAGE_OF = {dtype: name for name, dtype in _STORAGES.items()}  # "": bytes, of which each tensor says what they are
_ALIGNMENT = 64  # of a storage in the file, so that it can be mapped


def _dtype_name(dtype) -> str:
    return str(dtype).rpartition(".")[2]


# ---- writing -------------------------------------------------------------------------------------------------------


class _Named:
    """Written as the global "module name", which only the reading side knows."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name


_REBUILD_TENSOR = _Named("torch._utils", "_rebuild_tensor_v2")
_REBUILD_TYPED = _Named("torch._utils", "_rebuild_tensor_v3")
_REBUILD_PARAMETER = _Named("torch._utils", "_rebuild_parameter")


class _Storage:
    """A tensor's storage on its way into the file or out of it."""

    def __init__(self, key: str, dtype: str, location: str, n_elements: int, vector=None) -> None:
        self.key, self.dtype, self.location, self.n_elements, self.vector = key, dtype, location, n_elements, vector


class _Writer(pickle._Pickler):
    """Pickles tensors as PyTorch does: their storages are entries of their own, named by number."""

    dispatch = dict(pickle._Pickler.dispatch)

    def __init__(self, file, protocol: int) -> None:
        super().__init__(file, protocol=protocol)
        self.storages, self.names = {}, {}

    def save(self, obj, save_persistent_id=True):
        """One value."""
        kind = type(obj)
        if kind is _Named:
            self._save_named(obj)
        elif isinstance(obj, _C.TensorBase):
            if id(obj) in self.memo:
                super().save(obj, save_persistent_id)
            else:
                self._save_tensor(obj)
        elif kind is _C.dtype:
            self._save_named(_Named("torch", _dtype_name(obj)))
        elif kind is _C.Size:
            self.save_reduce(_Named("torch", "Size"), (tuple(obj),), obj=obj)
        elif kind is _C.device:
            where = (obj.type,) if obj.index is None else (obj.type, obj.index)
            self.save_reduce(_Named("torch", "device"), where, obj=obj)
        elif kind.__module__.partition(".")[0] == "narthex" and kind is not _Storage:
            raise NotImplementedError(
                f"torch.save: an object of class {kind.__qualname__} cannot be saved yet; save its state_dict()"
            )
        else:
            super().save(obj, save_persistent_id)

    def _save_named(self, obj: _Named) -> None:
        key = (obj.module, obj.name)
        known = self.names.get(key)
        if known is not None:
            self.write(self.get(self.memo[id(known)][0]))
            return
        self.write(pickle.GLOBAL + f"{obj.module}\n{obj.name}\n".encode())
        self.names[key] = obj
        self.memoize(obj)

    def save_reduce(self, func, args, state=None, *rest, obj=None, **more):
        """A call of `func`; of a name that is no callable here as well."""
        if type(func) is not _Named:
            return super().save_reduce(func, args, state, *rest, obj=obj, **more)
        self.save(func)
        self.save(args)
        self.write(pickle.REDUCE)
        if obj is not None:
            self.memoize(obj)

    def _save_tensor(self, tensor) -> None:
        if tensor._is_fake or not tensor.is_leaf and tensor.requires_grad:
            what = "a fake tensor" if tensor._is_fake else "a tensor that was computed with requires_grad"
            raise RuntimeError(f"torch.save: {what} cannot be saved; save tensor.detach()")
        if tensor._is_param:
            inner = tensor.detach()
            self.save_reduce(_REBUILD_PARAMETER, (inner, tensor.requires_grad, OrderedDict()), obj=tensor)
            return
        size, stride = tuple(tensor.shape), tuple(tensor.stride())
        parts = (self._storage(tensor), tensor.storage_offset(), size, stride, tensor.requires_grad, OrderedDict())
        if _dtype_name(tensor.dtype) in _STORAGE_OF:
            self.save_reduce(_REBUILD_TENSOR, parts, obj=tensor)
        else:
            self.save_reduce(_REBUILD_TYPED, (*parts, tensor.dtype), obj=tensor)

    def _storage(self, tensor) -> _Storage:
        number, n_bytes = _C.storage_key(tensor)
        known, dtype = self.storages.get(number), _dtype_name(tensor.dtype)
        typed = dtype in _STORAGE_OF
        if known is not None:
            if known.dtype != (dtype if typed else ""):
                raise RuntimeError(
                    "Cannot save multiple tensors or storages that view the same data as different types"
                )
            return known
        location = tensor.device.type
        if location != "cpu":
            location = f"{location}:{tensor.device.index or 0}"
        key, n_elements = str(len(self.storages)), n_bytes // (tensor.itemsize if typed else 1)
        made = _Storage(key, dtype if typed else "", location, n_elements, tensor)
        self.storages[number] = made
        return made

    def persistent_id(self, obj):
        """PyTorch's name of a storage."""
        if type(obj) is not _Storage:
            return None
        kind = _Named("torch" if obj.dtype else "torch.storage", _STORAGE_OF[obj.dtype])
        return ("storage", kind, obj.key, obj.location, obj.n_elements)


def _write_entry(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    """An uncompressed entry whose data starts at a multiple of 64 bytes."""
    entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    start = archive.fp.tell() + 30 + len(name.encode()) + 4
    fill = -start % _ALIGNMENT
    entry.extra = b"FB" + fill.to_bytes(2, "little") + b"Z" * fill
    archive.writestr(entry, data)


def _storage_data(tensor) -> bytes:
    if tensor.device.type == "cpu":
        return _C.storage_bytes(tensor)
    _, n_bytes = _C.storage_key(tensor)
    flat = _C.tensor_on_storage(tensor.detach(), (n_bytes // tensor.itemsize,), (1,), 0)
    return _C.storage_bytes(flat.cpu())


def save(
    obj, f, pickle_module=pickle, pickle_protocol: int = 2, _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:  # fmt: skip
    """Writes `obj` (tensors, numbers, strings, lists, dicts ... of them) to a path or a binary file.

    Tensors that share memory share it again when they are loaded. Modules and optimizers are not written: their
    state_dict() is. At a path stands the old file or the whole new one, whenever the program ends.
    """
    if not _use_new_zipfile_serialization:
        raise NotImplementedError("torch.save: _use_new_zipfile_serialization=False is not there; leave it out")
    if pickle_module is not pickle:
        raise NotImplementedError("torch.save: pickle_module is not there; only the standard pickle is")
    text = io.BytesIO()
    writer = _Writer(text, pickle_protocol)
    writer.dump(obj)
    if isinstance(f, (str, os.PathLike)):
        with _replacing(os.fspath(f)) as file:
            _write(file, os.path.splitext(os.path.basename(os.fspath(f)))[0], text, writer, _disable_byteorder_record)
    else:
        _write(f, "archive", text, writer, _disable_byteorder_record)


def _write(file, root: str, text: io.BytesIO, writer: _Writer, no_byteorder: bool) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        _write_entry(archive, f"{root}/data.pkl", text.getvalue())
        _write_entry(archive, f"{root}/.format_version", b"1")
        _write_entry(archive, f"{root}/.storage_alignment", str(_ALIGNMENT).encode())
        if not no_byteorder:
            _write_entry(archive, f"{root}/byteorder", sys.byteorder.encode())
        for storage in writer.storages.values():
            _write_entry(archive, f"{root}/data/{storage.key}", _storage_data(storage.vector))
        _write_entry(archive, f"{root}/version", b"3\n")


@contextmanager
def _replacing(path: str):
    """A file beside `path` that takes its place when it is whole; `path` itself if it is no ordinary file."""
    path = os.path.realpath(path)
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise RuntimeError(f"Parent directory {folder} does not exist.")
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "wb") as file:
            yield file
        return
    part = f"{path}.{os.getpid()}.part"
    try:
        with open(part, "wb") as file:
            yield file
        if os.path.exists(path):
            os.chmod(part, os.stat(path).st_mode & 0o7777)
        os.replace(part, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(part)
        raise


# ---- reading -------------------------------------------------------------------------------------------------------


def _rebuild_tensor(storage, offset, size, stride, requires_grad=False, hooks=None, metadata=None):
    if not isinstance(storage, _Storage):
        raise TypeError("the first argument is no storage")
    if metadata or hooks:
        raise ValueError("hooks and metadata of tensors are not there yet")
    tensor = _C.tensor_on_storage(storage.vector, size, stride, offset)
    return tensor.requires_grad_() if requires_grad is True else tensor


def _rebuild_typed(storage, offset, size, stride, requires_grad, hooks, dtype, metadata=None):
    if not isinstance(storage, _Storage):
        raise TypeError("the first argument is no storage")
    if metadata or hooks:
        raise ValueError("hooks and metadata of tensors are not there yet")
    kind = dtype.value if isinstance(dtype, Global) else dtype
    tensor = _C.tensor_on_storage(storage.vector, size, stride, offset, kind)
    return tensor.requires_grad_() if requires_grad is True else tensor


def _rebuild_parameter(data, requires_grad, hooks=None):
    if not isinstance(data, _C.TensorBase):
        raise TypeError("the first argument is no tensor")
    return Parameter(data, bool(requires_grad))


def _encode(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise ValueError(f"encoding {encoding}")
    return text.encode("latin1")


def _default_dict(factory=None, *entries):
    if factory is not None and not isinstance(factory, Global):
        raise TypeError("the factory is no class")
    return defaultdict(None if factory is None else factory.make, *entries)


_FUNCTIONS = {
    "torch._utils _rebuild_tensor": _rebuild_tensor,
    "torch._utils _rebuild_tensor_v2": _rebuild_tensor,
    "torch._utils _rebuild_tensor_v3": _rebuild_typed,
    "torch._utils _rebuild_parameter": _rebuild_parameter,
    "torch Size": lambda sizes=(): _C.Size(sizes),
    "torch device": lambda *where: _C.device(*where),
    "collections OrderedDict": OrderedDict,
    "collections Counter": Counter,
    "collections defaultdict": _default_dict,
    "_codecs encode": _encode,
}
for _module in ("builtins", "__builtin__"):
    for _kind in (set, frozenset, list, tuple, dict, bytearray, complex):
        _FUNCTIONS[f"{_module} {_kind.__name__}"] = _kind


def _known(name: str) -> Global:
    """What stands for a global of the file."""
    if name in _FUNCTIONS:
        return Global(name, _FUNCTIONS[name])
    module, _, last = name.partition(" ")
    if module in ("torch", "torch.storage") and last in _STORAGES:
        return Global(name, value=_STORAGES[last])
    if module == "torch" and isinstance(getattr(_C, last, None), _C.dtype):
        return Global(name, value=getattr(_C, last))
    raise pickle.UnpicklingError(
        f"Weights only load failed. Unsupported global: GLOBAL {module}.{last} was not an allowed global: Narthex "
        "reads tensors, numbers, strings and containers of them; save the state_dict() or plain values instead"
    )


def _target(map_location, storage: _Storage):
    """The device for a storage that was saved from `storage.location`."""
    place = map_location
    if isinstance(map_location, dict):
        place = map_location.get(storage.location, storage.location)
    elif callable(map_location) and not isinstance(map_location, _C.device):
        place = map_location(storage, storage.location)
        if isinstance(place, _Storage):
            return _C.device("cpu") if place is storage else place.vector.device
    if place is None:
        place = storage.location
        if place.startswith("cuda"):
            raise RuntimeError(
                "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. "
                "Use torch.load with map_location=torch.device('cpu') to map your storages to the CPU."
            )
    return place if isinstance(place, _C.device) else _C.device(place)


class _Archive:
    """An open checkpoint: hands out its storages, each once."""

    def __init__(self, archive: zipfile.ZipFile, map_location) -> None:
        self.archive, self.map_location, self.storages = archive, map_location, {}
        found = [name for name in archive.namelist() if name.endswith("/data.pkl") and name.count("/") == 1]
        if len(found) != 1:
            raise RuntimeError("torch.load: the zip file is no checkpoint: it must have one entry NAME/data.pkl")
        self.root = found[0][: -len("data.pkl")]
        if self.root + "constants.pkl" in archive.namelist():
            raise RuntimeError("torch.load: this is a TorchScript archive (torch.jit.save), which is not there yet")
        order = self.root + "byteorder"
        if order in archive.namelist() and self.read(order) != sys.byteorder.encode():
            raise NotImplementedError("torch.load: the file has the other byte order, which is not there yet")

    def read(self, name: str) -> bytes:
        """The bytes of an entry. What zipfile has against it is a RuntimeError."""
        try:
            if self.archive.getinfo(name).compress_type != zipfile.ZIP_STORED:
                raise RuntimeError("it is compressed, which torch.save never does")
            return self.archive.read(name)
        except (KeyError, OSError, EOFError, ValueError, RuntimeError, zipfile.BadZipFile) as error:
            raise RuntimeError(f"torch.load: the file is damaged: {name}: {error or 'it ends too early'}") from error

    def storage(self, name) -> _Storage:
        """The storage that the pickle names ("storage", dtype, key, location, number of elements)."""
        if not (isinstance(name, tuple) and len(name) == 5 and name[0] == "storage" and name[1] in _STORAGE_OF):
            raise pickle.UnpicklingError(f"unknown kind of storage: {name!r}")
        _, dtype, key, location, n_elements = name
        if key not in self.storages:
            made = _Storage(key, dtype, location, n_elements)
            data = bytearray(self.read(f"{self.root}data/{key}"))
            kind = getattr(_C, dtype or "uint8")
            if len(data) < n_elements * kind.itemsize:
                raise RuntimeError(
                    f"torch.load: storage {key} has {len(data)} bytes, {n_elements * kind.itemsize} are expected"
                )
            made.vector = _C.tensor_over(data, kind)
            made.vector = made.vector.to(_target(self.map_location, made))
            self.storages[key] = made
        return self.storages[key]


def load(f, map_location=None, pickle_module=None, *, weights_only=None, mmap=None, **pickle_load_args):
    """What torch.save wrote to a path or a binary file, by Narthex or PyTorch (since 1.6).

    `map_location`: a device, a dict {saved location: device}, or a function (storage, location) -> device or storage.
    Nothing in the file is executed, also with weights_only=False: objects of other classes raise UnpicklingError.
    """
    if mmap:
        raise NotImplementedError("torch.load: mmap=True is not there yet; leave it out")
    if pickle_module is not None and pickle_module is not pickle:
        raise NotImplementedError("torch.load: pickle_module is not there; files are read without one")
    if pickle_load_args.pop("encoding", "utf-8") not in ("utf-8", "ascii", "latin1") or pickle_load_args:
        raise NotImplementedError(f"torch.load: pickle_load_args {pickle_load_args} are not there")
    try:
        opened = zipfile.ZipFile(f)
    except (zipfile.BadZipFile, NotImplementedError, ValueError, EOFError) as error:
        raise _no_zip(f, error) from None
    with opened as archive:
        source = _Archive(archive, map_location)
        return read(source.read(source.root + "data.pkl"), _known, source.storage)


def _no_zip(f, error) -> Exception:
    """What is wrong with a file that zipfile does not open, by its first bytes."""
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as file:
            head = file.read(8)
    else:
        f.seek(0)
        head = f.read(8)
    if head.startswith(b"PK"):
        return RuntimeError(f"torch.load: the file is cut off or damaged ({error}): save it again or take an older one")
    if head.startswith(b"\x80"):
        return NotImplementedError(
            "torch.load: PyTorch before 1.6 wrote this file, or pickle did; load and save it again with a newer PyTorch"
        )
    if not head:
        return pickle.UnpicklingError("torch.load: the file is empty")
    return pickle.UnpicklingError(f"torch.load: this is no file of torch.save: it begins with {head!r}")


__all__ = ["load", "save"]
