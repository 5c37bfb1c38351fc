"""How torch.load reads checkpoints: zip files, streams of before PyTorch 1.6, TorchScript archives.

`Zip` and `Stream` are open files that hand out their storages, each once; a pickle among them is read as data
(_read_pickle.py, `safe`) or, when the caller asked for it, by Python's unpickler (`unpickle`), which imports and calls
what the file names. There torch's names are Narthex's, whatever this process calls torch.
"""

import importlib
import io
import mmap as _mmap
import os
import pickle
import pickletools
import sys
import zipfile
from array import array
from collections import Counter, OrderedDict, defaultdict

from . import _C
from ._read_pickle import Global, read
from .nn.parameter import Parameter

STORAGES = {
    "FloatStorage": "float32", "DoubleStorage": "float64", "HalfStorage": "float16", "BFloat16Storage": "bfloat16",
    "LongStorage": "int64", "IntStorage": "int32", "ShortStorage": "int16", "CharStorage": "int8",
    "ByteStorage": "uint8", "BoolStorage": "bool", "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128", "UntypedStorage": "",
}  # fmt: skip
STORAGE_OF = {dtype: name for name, dtype in STORAGES.items()}  # "": bytes, of which each tensor says what they are
MAGIC, PROTOCOL = 0x1950A86A20F9469CFC6C, 1001  # of files of before 1.6


class Storage:
    """A tensor's storage on its way into the file or out of it."""

    def __init__(self, key: str, dtype: str, location: str, n_elements: int, vector=None) -> None:
        self.key, self.dtype, self.location, self.n_elements, self.vector = key, dtype, location, n_elements, vector


# ---- what files call ---------------------------------------------------------------------------------------------


def rebuild_tensor(storage, offset, size, stride, requires_grad=False, hooks=None, metadata=None, dtype=None):
    if not isinstance(storage, Storage):
        raise TypeError("the first argument is no storage")
    if metadata or hooks:
        raise ValueError("hooks and metadata of tensors are not there yet")
    kind = () if dtype is None else (dtype.value if isinstance(dtype, Global) else dtype,)
    tensor = _C.tensor_on_storage(storage.vector, size, stride, offset, *kind)
    return tensor.requires_grad_() if requires_grad is True else tensor


def rebuild_typed(storage, offset, size, stride, requires_grad, hooks, dtype, metadata=None):
    return rebuild_tensor(storage, offset, size, stride, requires_grad, hooks, metadata, dtype)


def layout_of(name):
    """The layout that "torch.sparse_coo" names."""
    found = getattr(_C, name.removeprefix("torch."), None) if isinstance(name, str) else None
    if not isinstance(found, type(_C.strided)):
        raise TypeError(f"{name!r} is no layout")
    return found


def rebuild_sparse(layout, data):
    from .sparse._make import rebuild

    return rebuild(layout, data)


def rebuild_parameter(data, requires_grad, hooks=None):
    if not isinstance(data, _C.TensorBase):
        raise TypeError("the first argument is no tensor")
    return Parameter(data, bool(requires_grad))


def encode(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise ValueError(f"encoding {encoding}")
    return text.encode("latin1")


def default_dict(factory=None, *entries):
    if factory is not None and not isinstance(factory, Global):
        raise TypeError("the factory is no class")
    return defaultdict(None if factory is None else factory.make, *entries)


FUNCTIONS = {
    "torch._utils _rebuild_tensor": rebuild_tensor,
    "torch._utils _rebuild_tensor_v2": rebuild_tensor,
    "torch._utils _rebuild_tensor_v3": rebuild_typed,
    "torch._utils _rebuild_parameter": rebuild_parameter,
    "torch._utils _rebuild_sparse_tensor": rebuild_sparse,
    "torch.serialization _get_layout": layout_of,
    "torch Size": lambda sizes=(): _C.Size(sizes),
    "torch device": lambda *where: _C.device(*where),
    "collections OrderedDict": OrderedDict,
    "collections Counter": Counter,
    "collections defaultdict": default_dict,
    "_codecs encode": encode,
}
for _module in ("builtins", "__builtin__"):
    for _kind in (set, frozenset, list, tuple, dict, bytearray, complex):
        FUNCTIONS[f"{_module} {_kind.__name__}"] = _kind


def value_of(module: str, name: str):
    """The dtype, or the name of a storage's dtype, that a global of torch stands for; None: it is something else."""
    if module in ("torch", "torch.storage") and name in STORAGES:
        return STORAGES[name]
    found = getattr(_C, name, None) if module == "torch" else None
    return found if isinstance(found, _C.dtype) else None


# ---- globals that the caller allows ------------------------------------------------------------------------------
allowed: list = []  # functions and classes, or pairs of one and the name that files have for it


def own_name(thing) -> str:
    """module.name as files say it: narthex is torch there."""
    module, dot, rest = thing.__module__.partition(".")
    return f"{'torch' if module == 'narthex' else module}{dot}{rest}.{thing.__qualname__}"


def find_allowed(name: str):
    for entry in allowed:
        thing, said = entry if isinstance(entry, tuple) else (entry, own_name(entry))
        if name.replace(" ", ".") == said:
            return thing
    return None


def safe(name: str) -> Global:
    """What stands for a global where nothing may be executed that was not written for it or allowed."""
    module, _, last = name.partition(" ")
    if name in FUNCTIONS:
        return Global(name, FUNCTIONS[name])
    value = value_of(module, last)
    if value is not None:
        return Global(name, value=value)
    thing = find_allowed(name)
    if thing is not None:
        return Global(name, thing, allowed=True)
    raise pickle.UnpicklingError(
        f"Weights only load failed. Unsupported global: GLOBAL {module}.{last} was not an allowed global by default. "
        "Nothing was executed. If you trust the file, allow the name by torch.serialization.add_safe_globals("
        f"[{last}]), or load with weights_only=False, which runs what the file says"
    )


def globals_of(data: bytes) -> list[str]:
    """The globals that a pickle names, "module name", in its order."""
    found, texts, memo = {}, [], {}  # texts: what was pushed, None for what is no text
    for opcode, argument, _ in pickletools.genops(data):
        if opcode.name == "GLOBAL":
            found[argument] = None
            texts.append(None)
        elif opcode.name == "STACK_GLOBAL" and len(texts) > 1 and None not in texts[-2:]:
            found[" ".join(texts[-2:])] = None
            texts.append(None)
        elif opcode.name == "MEMOIZE" or opcode.name in ("PUT", "BINPUT", "LONG_BINPUT"):
            memo[len(memo) if argument is None else argument] = texts[-1] if texts else None
        elif opcode.name in ("GET", "BINGET", "LONG_BINGET"):
            texts.append(memo.get(argument))
        elif opcode.name not in ("PROTO", "FRAME"):
            texts.append(argument if isinstance(argument, str) else None)
    return list(found)


# ---- unpickling ---------------------------------------------------------------------------------------------------
def find_in_torch(module: str, name: str):
    """What a trusted file means by a name of torch: Narthex's."""
    found = FUNCTIONS.get(f"{module} {name}")
    if found is None:
        found = value_of(module, name)
    if found is None:
        found = find_torch(module.partition(".")[2], name)
        for part in name.split("."):
            found = getattr(found, part)
    return found


def find_torch(rest: str, name: str):
    """The module of Narthex that has what torch's module `rest` has under the name, or the nearest above it."""
    while True:
        try:
            module = importlib.import_module(f"narthex.{rest}" if rest else "narthex")
            if not rest or hasattr(module, name.partition(".")[0]):
                return module
        except ImportError:
            pass
        rest = rest.rpartition(".")[0]


def unpickler(kind, file, persistent, options: dict):
    class Unpickler(kind):
        def find_class(self, module, name):
            is_torch = module.partition(".")[0] == "torch"
            return find_in_torch(module, name) if is_torch else super().find_class(module, name)

        def persistent_load(self, name):
            return persistent(name)

    return Unpickler(file, **options)


# ---- files --------------------------------------------------------------------------------------------------------
unsaid_order = "little"  # of bytes, in files that do not say it
restore = None  # what torch.serialization.register_package has put in the place of target


def placed(vector, map_location, storage: Storage):
    """`vector`, the elements of a storage, where they belong."""
    if restore is None or map_location is not None:
        return vector.to(target(map_location, storage))
    return restore(vector.untyped_storage(), storage.location)._vector.view(vector.dtype)


def target(map_location, storage: Storage):
    """The device for a storage that was saved from `storage.location`."""
    place = map_location
    if isinstance(map_location, dict):
        place = map_location.get(storage.location, storage.location)
    elif callable(map_location) and not isinstance(map_location, _C.device):
        place = map_location(storage, storage.location)
        if isinstance(place, Storage):
            return _C.device("cpu") if place is storage else place.vector.device
    if place is None:
        place = storage.location
        if place.startswith("cuda"):
            raise RuntimeError(
                "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. "
                "Use torch.load with map_location=torch.device('cpu') to map your storages to the CPU."
            )
    return place if isinstance(place, _C.device) else _C.device(place)


class Zip:
    """A checkpoint of PyTorch since 1.6: a zip of a pickle (data.pkl) and one entry for each storage."""

    def __init__(self, file, map_location, mapped: bool = False) -> None:
        self.archive, self.map_location, self.storages = zipfile.ZipFile(file), map_location, {}
        self.memory, self.folder = None, "data"  # folder: of the storages that are asked for
        found = [name for name in self.archive.namelist() if name.endswith("/data.pkl") and name.count("/") == 1]
        if len(found) != 1:
            raise RuntimeError("torch.load: the zip file is no checkpoint: it must have one entry NAME/data.pkl")
        self.root = found[0][: -len("data.pkl")]
        self.is_script = self.root + "constants.pkl" in self.archive.namelist()
        order = self.root + "byteorder"
        said = self.read(order) if order in self.archive.namelist() else unsaid_order.encode()
        self.swaps = said != sys.byteorder.encode()
        if mapped:
            self.memory = _mmap.mmap(self.archive.fp.fileno(), 0, access=_mmap.ACCESS_COPY)

    def read(self, name: str) -> bytes:
        """The bytes of an entry. What zipfile has against it is a RuntimeError."""
        try:
            if self.archive.getinfo(name).compress_type != zipfile.ZIP_STORED:
                raise RuntimeError("it is compressed, which torch.save never does")
            return self.archive.read(name)
        except (KeyError, OSError, EOFError, ValueError, RuntimeError, zipfile.BadZipFile) as error:
            raise RuntimeError(f"torch.load: the file is damaged: {name}: {error or 'it ends too early'}") from error

    def mapped(self, name: str) -> memoryview:
        """An entry where it lies in the file; what is written there stays with this process."""
        try:
            entry = self.archive.getinfo(name)
        except KeyError as error:
            raise RuntimeError(f"torch.load: the file is damaged: {name}: {error}") from error
        at = entry.header_offset
        begin = at + 30 + int.from_bytes(self.memory[at + 26 : at + 28], "little")
        begin += int.from_bytes(self.memory[at + 28 : at + 30], "little")
        if entry.compress_type != zipfile.ZIP_STORED or begin + entry.file_size > len(self.memory):
            raise RuntimeError(f"torch.load: the file is damaged: {name}: it is compressed, or ends too early")
        return memoryview(self.memory)[begin : begin + entry.file_size]

    def storage(self, name) -> Storage:
        """The storage that the pickle names ("storage", dtype, key, location, number of elements)."""
        if not (isinstance(name, tuple) and len(name) == 5 and name[0] == "storage" and name[1] in STORAGE_OF):
            raise pickle.UnpicklingError(f"unknown kind of storage: {name!r}")
        _, dtype, key, location, n_elements = name
        if (self.folder, key) not in self.storages:
            made, kind = Storage(key, dtype, location, n_elements), getattr(_C, dtype or "uint8")
            entry = f"{self.root}{self.folder}/{key}"
            data = self.mapped(entry) if self.memory and not self.swaps else bytearray(self.read(entry))
            if len(data) < n_elements * kind.itemsize:
                raise RuntimeError(
                    f"torch.load: storage {key} has {len(data)} bytes, {n_elements * kind.itemsize} are expected"
                )
            if self.swaps:
                swap_bytes(data, kind)
            made.vector = _C.tensor_over(data, kind)
            made.vector = placed(made.vector, self.map_location, made)
            self.storages[self.folder, key] = made
        return self.storages[self.folder, key]

    def load(self, weights_only: bool, kind, options: dict):
        data = self.read(self.root + "data.pkl")
        if self.is_script:
            return state_of_script(data, self.storage)
        if weights_only:
            return read(data, safe, self.storage)
        return unpickler(kind, io.BytesIO(data), self.storage, options).load()


def swap_bytes(data: bytearray, dtype) -> None:
    """From one byte order to the other, number by number; a complex one is two."""
    size = dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize
    if size > 1:
        numbers = array({2: "H", 4: "I", 8: "Q"}[size], bytes(data[: len(data) // size * size]))
        numbers.byteswap()
        data[: len(numbers) * size] = numbers.tobytes()


class Stream:
    """A checkpoint of before PyTorch 1.6: pickles one behind the other, then the storages' bytes."""

    def __init__(self, file, map_location) -> None:
        self.file, self.map_location, self.storages = file, map_location, {}
        begin = file.tell()
        self.n_bytes = file.seek(0, os.SEEK_END) - begin
        file.seek(begin)

    def storage(self, name) -> Storage:
        """("storage", dtype, key, location, number of elements, view); its bytes come later."""
        if isinstance(name, tuple) and len(name) == 4 and name[0] == "module":
            return name[1]  # a class, beside it its source
        if not (isinstance(name, tuple) and len(name) in (5, 6) and name[0] == "storage" and name[1] in STORAGE_OF):
            raise pickle.UnpicklingError(f"unknown kind of storage: {name!r}")
        _, dtype, key, location, n_elements, *view = name
        if view not in ([], [None]):
            raise NotImplementedError("torch.load: the file has views of storages, as PyTorch before 0.4 wrote them")
        if key not in self.storages:
            kind = getattr(_C, dtype or "uint8")
            if not isinstance(n_elements, int) or not 0 <= n_elements * kind.itemsize <= self.n_bytes:
                raise RuntimeError(f"torch.load: the file is damaged: storage {key} would have {n_elements!r} elements")
            made = Storage(key, dtype, location, n_elements)
            made.data = bytearray(n_elements * kind.itemsize)
            made.host = _C.tensor_over(made.data, kind)
            made.vector = placed(made.host, self.map_location, made)
            self.storages[key] = made
        return self.storages[key]

    def load(self, weights_only: bool, kind, options: dict):
        def next_pickle(storage):
            if weights_only:
                return read(self.file, safe, storage)
            return unpickler(kind, self.file, storage, options).load()

        def none(name):
            raise pickle.UnpicklingError(f"unexpected storage {name!r}")

        if next_pickle(none) != MAGIC or next_pickle(none) != PROTOCOL:
            raise pickle.UnpicklingError("torch.load: this is a pickle, but none that torch.save wrote")
        little = next_pickle(none).get("little_endian", True)
        result = next_pickle(self.storage)
        for key in next_pickle(none):
            self.fill(self.storages.get(key), little)
        return result

    def fill(self, storage: Storage | None, little: bool) -> None:
        order = "little" if little else "big"
        if storage is None or int.from_bytes(self.file.read(8), order) != storage.n_elements:
            raise RuntimeError("torch.load: the file is damaged: its storages are not those of its tensors")
        if self.file.readinto(storage.data) != len(storage.data):
            raise RuntimeError("torch.load: the file is cut off or damaged: save it again or take an older one")
        if order != sys.byteorder:
            swap_bytes(storage.data, storage.host.dtype)
        if storage.vector is not storage.host:
            storage.vector.copy_(storage.host)


# ---- TorchScript --------------------------------------------------------------------------------------------------
class Part:
    """A module or another object of a TorchScript archive: its attributes, no code."""


def names_of_script(name: str) -> Global:
    """What the names in the pickles of a TorchScript archive mean: a class of the archive, a subclass of Part."""
    if name.startswith("__torch__"):
        return Global(name, type(name, (Part,), {"script": name.replace(" ", ".")}), allowed=True)
    if name.startswith("torch.jit._pickle "):  # lists with the types of their elements
        return Global(name, lambda values, *types: values)
    return safe(name)


def state_of_script(data: bytes, storage) -> OrderedDict:
    """The tensors of a TorchScript archive by the names that its modules give them, as a state_dict has them."""
    state = OrderedDict()

    def add(prefix: str, value) -> None:
        if isinstance(value, _C.TensorBase):
            state[prefix] = value
        elif isinstance(value, Part):
            for name, inner in vars(value).items():
                add(f"{prefix}.{name}" if prefix else name, inner)

    add("", read(data, names_of_script, storage))
    return state


# ---- opening ------------------------------------------------------------------------------------------------------
def open_checkpoint(file, map_location, mapped: bool):
    """A Zip or a Stream over a binary file, by its first bytes."""
    begin = file.tell()
    head = file.read(8)
    if not head:  # at the end, where whoever wrote it left it
        begin = file.seek(0)
        head = file.read(8)
    file.seek(begin)
    if head.startswith(b"PK"):
        try:
            return Zip(file, map_location, mapped)
        except (zipfile.BadZipFile, NotImplementedError, ValueError, EOFError) as error:
            raise RuntimeError(
                f"torch.load: the file is cut off or damaged ({error}): save it again or take an older one"
            ) from None
    if mapped:
        raise RuntimeError("torch.load: mmap=True needs a file that torch.save wrote since 1.6; this one is a stream")
    if head.startswith(b"\x80"):
        return Stream(file, map_location)
    if not head:
        raise pickle.UnpicklingError("torch.load: the file is empty")
    raise pickle.UnpicklingError(f"torch.load: this is no file of torch.save: it begins with {head!r}")
