"""torch.serialization beside save and load: byte orders, tags of places, packages that know other places."""

from __future__ import annotations

import enum
import shutil
import sys
import tempfile
import warnings
from contextlib import contextmanager
from importlib import import_module

from . import _C, _read_files


class LoadEndianness(enum.Enum):
    """The order of bytes of files that do not say theirs."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


class SourceChangeWarning(Warning):
    """That the source of a class has changed since a file was written; files hold no sources any more."""


class StorageType:
    """A storage's class as files name it."""

    def __init__(self, name: str) -> None:
        if name not in _read_files.STORAGES:
            raise KeyError(f"pickle storage type {name} is not recognized")
        self._dtype = getattr(_C, _read_files.STORAGES[name] or "uint8")

    @property
    def dtype(self):
        """Of its elements."""
        return self._dtype

    def __str__(self) -> str:
        return f"StorageType(dtype={self.dtype})"


_options = {"endianness": None, "crc32": True, "skip_data": False}


def get_default_load_endianness() -> LoadEndianness | None:
    """What set_default_load_endianness was given."""
    return _options["endianness"]


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """The order of bytes of files that do not say theirs; None: little."""
    if not isinstance(endianness, LoadEndianness) and endianness is not None:
        raise TypeError("Invalid argument type in function set_default_load_endianness")
    _options["endianness"] = endianness
    names = {LoadEndianness.BIG: "big", LoadEndianness.NATIVE: sys.byteorder}
    _read_files.unsaid_order = names.get(endianness, "little")


def get_crc32_options() -> bool:
    """What set_crc32_options was given."""
    return _options["crc32"]


def set_crc32_options(compute_crc32: bool) -> None:
    """Kept only: every entry of a file gets its checksum."""
    _options["crc32"] = compute_crc32


class skip_data:  # noqa: N801
    """Inside, torch.save leaves room for the bytes of storages and writes zeros there."""

    def __init__(self, materialize_fake_tensors: bool = False) -> None:
        if materialize_fake_tensors:
            raise NotImplementedError("skip_data: fake tensors cannot be saved, with or without data")
        self.materialize_fake_tensors = False

    def __enter__(self) -> None:
        self._before = _options["skip_data"]
        _options["skip_data"] = True

    def __exit__(self, *exception) -> None:
        _options["skip_data"] = self._before


# ---- places --------------------------------------------------------------------------------------------------------
def _own_tag(storage) -> str:
    device = storage.device
    return device.type if device.type in ("cpu", "meta") else f"{device.type}:{device.index or 0}"


def _own_restore(storage, location: str):
    if location.startswith("cuda"):
        raise RuntimeError(
            "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. "
            "If you are running on a CPU-only machine, please use torch.load with map_location=torch.device('cpu') "
            "to map your storages to the CPU."
        )
    try:
        device = _C.device(location)
    except RuntimeError:
        return None
    return storage if device == storage.device else type(storage)._over(storage._vector.to(device))


_OWN = 10  # the priority of what this file knows by itself
_registry: list = [(_OWN, _own_tag, _own_restore)]


def register_package(priority: int, tagger, deserializer) -> None:
    """Functions for storages of places that are not known by themselves: `tagger(storage)` gives the text that a file
    has for its place or None, `deserializer(storage,
    location)` the storage at that place or None. Lower priorities are asked
    first; the places of this machine have 10."""
    _registry.append((priority, tagger, deserializer))
    _registry.sort(key=lambda entry: entry[0])
    _read_files.restore = default_restore_location


def location_tag(storage) -> str:
    """What a file says of the place of a storage."""
    for _, tagger, _ in _registry:
        location = tagger(storage)
        if location:
            return location
    raise RuntimeError("don't know how to determine data location of " + type(storage).__name__)


def default_restore_location(storage, location: str):
    """The storage at the place that a file names."""
    for _, _, restore in _registry:
        restored = restore(storage, location)
        if restored is not None:
            return restored
    raise RuntimeError(
        f"don't know how to restore data location of torch.storage.{type(storage).__name__} (tagged with {location})"
    )


def has_packages() -> bool:
    """Whether register_package has been called."""
    return len(_registry) > 1


def _no_device(kind: str):
    def validate(location: str) -> int:
        """Raises: there is no such device."""
        raise RuntimeError(
            f"Attempting to deserialize object on a {kind} device but torch.{kind.lower()}.is_available() is False. "
            "If you are running on a CPU-only machine, please use torch.load with map_location=torch.device('cpu') "
            "to map your storages to the CPU."
        )

    validate.__name__ = validate.__qualname__ = f"validate_{kind.lower()}_device"
    return validate


validate_cuda_device, validate_hpu_device = _no_device("CUDA"), _no_device("HPU")


# ---- small things --------------------------------------------------------------------------------------------------
def check_module_version_greater_or_equal(module, req_version_tuple, error_if_malformed: bool = True) -> bool:
    """Whether a module's version is at least that one; a version that is no such text is an error, or a warning and
    yes."""
    try:
        parts = module.__version__.split(".")
        return tuple(type(asked)(parts[k]) for k, asked in enumerate(req_version_tuple)) >= req_version_tuple
    except Exception as error:
        text = (
            f"'{module.__name__}' module version string is malformed '{module.__version__}' and cannot be compared"
            f" with tuple {req_version_tuple}"
        )
        if error_if_malformed:
            raise RuntimeError(text) from error
        warnings.warn(text + ", but continuing assuming that requirement is met", stacklevel=2)
        return True


@contextmanager
def mkdtemp():
    """The path of a new folder that goes with the block."""
    path = tempfile.mkdtemp()
    try:
        yield path
    finally:
        shutil.rmtree(path)


def normalize_storage_type(storage_type):
    """The class of torch that has the name of a storage's class."""
    return getattr(import_module("narthex"), storage_type.__name__)


def storage_to_tensor_type(storage):
    """torch.FloatTensor of a FloatStorage."""
    name = type(storage).__name__
    if name == "TypedStorage":
        name = storage.pickle_storage_type()
    return getattr(import_module("narthex"), name.replace("Storage", "Tensor"))


__all__ = NAMES = (
    "LoadEndianness", "SourceChangeWarning", "StorageType", "check_module_version_greater_or_equal",
    "default_restore_location", "get_crc32_options", "get_default_load_endianness", "location_tag", "mkdtemp",
    "normalize_storage_type", "register_package", "set_crc32_options", "set_default_load_endianness", "skip_data",
    "storage_to_tensor_type", "validate_cuda_device", "validate_hpu_device",
)  # fmt: skip
