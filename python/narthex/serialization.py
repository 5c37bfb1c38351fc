"""torch.save and torch.load: PyTorch's checkpoint files, a zip of a pickle (data.pkl) and one entry for each storage,
and the streams of before PyTorch 1.6. What is written loads in PyTorch and the other way round. Reading:
_read_files.py.
"""

import io
import os
import pickle
import sys
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from contextlib import contextmanager, nullcontext, suppress
from types import FunctionType
from typing import IO

from . import _C, _read_files, _serialization_rest
from ._read_files import STORAGE_OF, Storage, globals_of, open_checkpoint
from ._serialization_rest import *  # noqa: F403
from ._serialization_rest import location_tag

DEFAULT_PROTOCOL, MAGIC_NUMBER, PROTOCOL_VERSION = 2, _read_files.MAGIC, _read_files.PROTOCOL

_ALIGNMENT = 64  # of a storage in the file, so that it can be mapped

# What map_location may be, and what a file may be, for annotations.
MAP_LOCATION = Callable[[Storage, str], Storage] | _C.device | str | dict[str, str] | None
FILE_LIKE = str | os.PathLike | IO[bytes]


def _dtype_name(dtype) -> str:
    return str(dtype).rpartition(".")[2]


# ---- writing -------------------------------------------------------------------------------------------------------


class _Named:
    """Written as the global "module name", which only the reading side knows."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name


_REBUILD_TENSOR = _Named("torch._utils", "_rebuild_tensor_v2")
_REBUILD_TYPED = _Named("torch._utils", "_rebuild_tensor_v3")
_REBUILD_SPARSE = _Named("torch._utils", "_rebuild_sparse_tensor")
_LAYOUT = _Named("torch.serialization", "_get_layout")
_REBUILD_PARAMETER = _Named("torch._utils", "_rebuild_parameter")


class _Writer(pickle._Pickler):
    """Pickles tensors as PyTorch does: their storages are entries of their own, named by number."""

    dispatch = dict(pickle._Pickler.dispatch)

    def __init__(self, file, protocol: int, is_stream: bool = False) -> None:
        super().__init__(file, protocol=protocol)
        self.storages, self.names, self.is_stream = {}, {}, is_stream

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
        elif kind is type(_C.strided):
            self.save_reduce(_LAYOUT, (str(obj),), obj=obj)
        elif kind is _C.device:
            where = (obj.type,) if obj.index is None else (obj.type, obj.index)
            self.save_reduce(_Named("torch", "device"), where, obj=obj)
        else:
            super().save(obj, save_persistent_id)

    def save_global(self, obj, name=None):
        """A function or class; Narthex's by the shortest name, which is what PyTorch has too: torch.nn.Linear."""
        own = name or obj.__qualname__
        module = pickle.whichmodule(obj, own)
        if module.partition(".")[0] != "narthex":
            super().save_global(obj, name)
            return
        parts = module.split(".")
        short = [".".join(parts[:i]) for i in range(1, len(parts))]
        found = (part for part in short if getattr(sys.modules[part], own, None) is obj)
        self._save_named(_Named(next(found, module).replace("narthex", "torch", 1), own))

    dispatch[FunctionType] = save_global

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

    def _save_sparse(self, tensor) -> None:
        kind, parts = tensor.layout, tensor._parts
        known = (tensor.is_coalesced(),) if tensor.is_sparse else ()
        self.save_reduce(_REBUILD_SPARSE, (kind, (*parts, tensor.shape, *known)), obj=tensor)

    def _save_tensor(self, tensor) -> None:
        if "narthex.sparse._tensor" in sys.modules and hasattr(tensor, "_parts"):
            self._save_sparse(tensor)
            return
        if tensor._is_fake:
            raise RuntimeError("torch.save: a fake tensor cannot be saved: it has no elements")
        if tensor._is_param:
            inner = tensor.detach()
            self.save_reduce(_REBUILD_PARAMETER, (inner, tensor.requires_grad, OrderedDict()), obj=tensor)
            return
        size, stride = tuple(tensor.shape), tuple(tensor.stride())
        parts = (self._storage(tensor), tensor.storage_offset(), size, stride, tensor.requires_grad, OrderedDict())
        if _dtype_name(tensor.dtype) in STORAGE_OF:
            self.save_reduce(_REBUILD_TENSOR, parts, obj=tensor)
        else:
            self.save_reduce(_REBUILD_TYPED, (*parts, tensor.dtype), obj=tensor)

    def _storage(self, tensor) -> Storage:
        number, n_bytes = _C.storage_key(tensor)
        known, dtype = self.storages.get(number), _dtype_name(tensor.dtype)
        typed = dtype in STORAGE_OF
        if known is not None:
            if known.dtype != (dtype if typed else ""):
                raise RuntimeError(
                    "Cannot save multiple tensors or storages that view the same data as different types"
                )
            return known
        if _serialization_rest.has_packages():
            location = location_tag(tensor.detach().untyped_storage())
        else:
            location = tensor.device.type
            if location != "cpu":
                location = f"{location}:{tensor.device.index or 0}"
        key, n_elements = str(len(self.storages)), n_bytes // (tensor.itemsize if typed else 1)
        made = Storage(key, dtype if typed else "", location, n_elements, tensor)
        self.storages[number] = made
        return made

    def persistent_id(self, obj):
        """PyTorch's name of a storage."""
        if type(obj) is not Storage:
            return None
        kind = _Named("torch" if obj.dtype else "torch.storage", STORAGE_OF[obj.dtype])
        name = ("storage", kind, obj.key, obj.location, obj.n_elements)
        return (*name, None) if self.is_stream else name


def _write_entry(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    """An uncompressed entry whose data starts at a multiple of 64 bytes."""
    entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    start = archive.fp.tell() + 30 + len(name.encode()) + 4
    fill = -start % _ALIGNMENT
    entry.extra = b"FB" + fill.to_bytes(2, "little") + b"Z" * fill
    archive.writestr(entry, data)


def _storage_data(tensor) -> bytes:
    if _serialization_rest._options["skip_data"]:
        return bytes(_C.storage_key(tensor)[1])
    if tensor.device.type == "cpu":
        return _C.storage_bytes(tensor)
    _, n_bytes = _C.storage_key(tensor)
    flat = _C.tensor_on_storage(tensor.detach(), (n_bytes // tensor.itemsize,), (1,), 0)
    return _C.storage_bytes(flat.cpu())


def save(
    obj, f, pickle_module=pickle, pickle_protocol: int = 2, _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:  # fmt: skip
    """Writes `obj` (what can be pickled: tensors, modules, lists, dicts ... of them) to a path or a binary file.

    Tensors that share memory share it again when they are loaded. torch.load reads tensors, numbers, strings and
    containers without executing anything; for other objects, modules among them, its caller has to say more. At a path
    stands the old file or the whole new one, whenever the program ends.
    _use_new_zipfile_serialization=False: as before PyTorch 1.6.
    """
    if pickle_module is not pickle:
        raise NotImplementedError("torch.save: pickle_module is not there; only the standard pickle is")
    text = io.BytesIO()
    writer = _Writer(text, pickle_protocol, not _use_new_zipfile_serialization)
    writer.dump(obj)
    root = os.path.splitext(os.path.basename(os.fspath(f)))[0] if isinstance(f, (str, os.PathLike)) else "archive"
    with _replacing(os.fspath(f)) if isinstance(f, (str, os.PathLike)) else nullcontext(f) as file:
        if _use_new_zipfile_serialization:
            _write(file, root, text, writer, _disable_byteorder_record)
        else:
            _write_stream(file, text, writer, pickle_protocol)


def _write_stream(file, text: io.BytesIO, writer: _Writer, protocol: int) -> None:
    sizes = {"short": 2, "int": 4, "long": 4}
    system = {"protocol_version": _read_files.PROTOCOL, "little_endian": sys.byteorder == "little", "type_sizes": sizes}
    for value in (_read_files.MAGIC, _read_files.PROTOCOL, system):
        pickle.dump(value, file, protocol=protocol)
    file.write(text.getvalue())
    storages = sorted(writer.storages.values(), key=lambda storage: storage.key)
    pickle.dump([storage.key for storage in storages], file, protocol=protocol)
    for storage in storages:
        file.write(storage.n_elements.to_bytes(8, sys.byteorder))
        file.write(_storage_data(storage.vector))


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
def _asked_for(weights_only, pickle_module) -> bool:
    """Whether nothing may be executed: what the caller says, else the environment, else yes."""
    forced = {name: os.environ.get(f"TORCH_FORCE_{name}_LOAD", "0") in ("1", "y", "yes", "true")
              for name in ("WEIGHTS_ONLY", "NO_WEIGHTS_ONLY")}  # fmt: skip
    if all(forced.values()):
        raise RuntimeError("Only one of TORCH_FORCE_WEIGHTS_ONLY_LOAD and TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD may be set")
    if forced["WEIGHTS_ONLY"]:
        weights_only = True
    elif weights_only is None:
        weights_only = pickle_module is None and not forced["NO_WEIGHTS_ONLY"]
    if weights_only and pickle_module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    return bool(weights_only)


def load(f, map_location=None, pickle_module=None, *, weights_only=None, mmap=None, **pickle_load_args):
    """What torch.save wrote to a path or a binary file, by Narthex or PyTorch, of any version that wrote pickles.

    `map_location`: a device, a dict {saved location: device}, or a function (storage, location) -> device or storage.
    `weights_only`, True unless something else is said: nothing that the file names is executed but what
    torch.serialization.add_safe_globals allowed; objects of other classes raise UnpicklingError. With False the file is
    unpickled, and so may run anything: only for files whose author is trusted.
    `mmap`: storages stay in the file at the path and are read when they are used; what is written to them is not saved.
    A TorchScript archive gives its parameters and buffers by name; its code does not run.
    """
    safely = _asked_for(weights_only, pickle_module)
    mapped = bool(mmap)
    encoding = pickle_load_args.get("encoding", "utf-8")
    if safely and (set(pickle_load_args) - {"encoding"} or encoding not in ("utf-8", "ascii", "latin1")):
        raise NotImplementedError(f"torch.load: {pickle_load_args} is not there with weights_only=True")
    is_path = isinstance(f, (str, os.PathLike))
    if mapped and not is_path:
        raise ValueError("f must be a string filename in order to use mmap argument")
    with open(f, "rb") if is_path else nullcontext(f) as file:
        opened = open_checkpoint(file, map_location, mapped)
        return opened.load(safely, (pickle_module or pickle).Unpickler, {"encoding": "utf-8"} | pickle_load_args)


class set_default_mmap_options:  # noqa: N801
    """How torch.load maps files: MAP_PRIVATE is what there is. Also a context manager."""

    def __init__(self, flags: int) -> None:
        from mmap import MAP_PRIVATE

        if flags != MAP_PRIVATE:
            raise ValueError(f"set_default_mmap_options: mmap.MAP_PRIVATE is what there is, not {flags}")

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error) -> None:
        pass


def get_default_mmap_options() -> int:
    """How files are mapped: what is written to mapped storages stays with this process."""
    from mmap import MAP_PRIVATE

    return MAP_PRIVATE


def add_safe_globals(safe_globals: list) -> None:
    """Lets torch.load(weights_only=True) use these functions and classes; a pair: one and its name in files."""
    _read_files.allowed.extend(safe_globals)


def get_safe_globals() -> list:
    """What add_safe_globals allowed."""
    return list(_read_files.allowed)


def clear_safe_globals() -> None:
    """Takes back all that add_safe_globals allowed."""
    _read_files.allowed.clear()


class safe_globals:  # noqa: N801
    """A context in which torch.load(weights_only=True) may use these functions and classes."""

    def __init__(self, safe_globals: list) -> None:
        self.allows = safe_globals

    def __enter__(self) -> None:
        self.before = get_safe_globals()
        add_safe_globals(self.allows)

    def __exit__(self, *error) -> None:
        _read_files.allowed[:] = self.before


def get_unsafe_globals_in_checkpoint(f) -> list[str]:
    """The globals that a checkpoint names and that torch.load(weights_only=True) would refuse: ["module.name"]."""
    found = []
    with open(f, "rb") if isinstance(f, (str, os.PathLike)) else nullcontext(f) as file:
        opened = open_checkpoint(file, "cpu", False)
        if not isinstance(opened, _read_files.Zip):
            raise ValueError("Expected input to be a checkpoint returned by torch.save")
        for name in globals_of(opened.read(opened.root + "data.pkl")):
            try:
                _read_files.safe(name)
            except pickle.UnpicklingError:
                found.append(name.replace(" ", "."))
    return found


__all__ = [
    "add_safe_globals", "clear_safe_globals", "get_default_mmap_options", "get_safe_globals",
    "get_unsafe_globals_in_checkpoint", "load", "safe_globals", "save", "set_default_mmap_options",
    *_serialization_rest.NAMES,
]  # fmt: skip
