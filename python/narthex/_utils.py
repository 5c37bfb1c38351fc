"""torch._utils: what packages take from there: dense tensors as one, devices by number, exceptions of workers, tensors
made again from their storages."""

from __future__ import annotations

import sys
import traceback
from importlib import import_module

import narthex as torch


# ---- many tensors as one -------------------------------------------------------------------------------------
def _flatten_dense_tensors(tensors):
    """All elements in one row: of one tensor a view, of several a copy."""
    rows = [tensor.contiguous().view(-1) for tensor in tensors]
    return rows[0] if len(rows) == 1 else torch.cat(rows)


def _unflatten_dense_tensors(flat, tensors) -> tuple:
    """Views of such a row, with the sizes of `tensors`."""
    made, at = [], 0
    for tensor in tensors:
        made.append(flat.narrow(0, at, tensor.numel()).view(tensor.shape))
        at += tensor.numel()
    return tuple(made)


def _take_tensors(tensors, size_limit: int):
    """Groups of tensors of one type, of `size_limit` bytes at least but for the last one of each type."""
    groups: dict = {}
    for tensor in tensors:
        kind = tensor.type()
        group, size = groups.get(kind, ([], 0))
        needed = tensor.numel() * tensor.element_size()
        if group and size + needed > size_limit:
            yield group
            group, size = [], 0
        groups[kind] = ([*group, tensor], size + needed)
    for group, _ in groups.values():
        if group:
            yield group


def _reorder_tensors_as(tensors, ordered_tensors) -> tuple:
    """`tensors`, which are grouped by type, in the order of types that `ordered_tensors` have."""
    by_type: dict = {}
    for tensor in tensors:
        by_type.setdefault(tensor.type(), []).append(tensor)
    found = {kind: iter(group) for kind, group in by_type.items()}
    return tuple(next(found[tensor.type()]) for tensor in ordered_tensors)


def _element_size(dtype) -> int:
    """Bytes of one element."""
    return dtype.itemsize


# ---- devices -------------------------------------------------------------------------------------------------
def _get_available_device_type() -> str | None:
    """The kind of accelerator that is there, None."""
    found = torch.accelerator.current_accelerator()
    return None if found is None else found.type


def _get_device_module(device_type: str):
    """torch.cpu of "cpu"."""
    module = getattr(torch, device_type, None)
    if module is None:
        raise RuntimeError(
            f"Device '{device_type}' does not have a corresponding module registered as 'torch.{device_type}'."
        )
    return module


def _get_current_device_index() -> int | None:
    """The number of the accelerator in use, None without one."""
    return torch.accelerator.current_device_index() if _get_available_device_type() else None


def _get_all_device_indices() -> list | None:
    """The numbers of all accelerators, None without any."""
    return list(range(torch.accelerator.device_count())) if _get_available_device_type() else None


def _get_device_index(device, optional: bool = False, allow_cpu: bool = False):
    """The number of a device: of an int itself, of the CPU -1 where `allow_cpu`, of None the current one where
    `optional`."""
    if isinstance(device, str):
        device = torch.device(device)
    if isinstance(device, torch.device):
        if device.type == "cpu" and not allow_cpu:
            raise ValueError(f"Expected a non cpu device, but got: {device}")
        index = -1 if device.type == "cpu" else device.index
    else:
        index = device if isinstance(device, int) else None
    if index is not None:
        return index
    if not optional:
        raise ValueError(f"Expected a torch.device with a specified index or an integer, but got:{device}")
    return _get_current_device_index()


# ---- exceptions of workers -----------------------------------------------------------------------------------
class KeyErrorMessage(str):
    """The text of a KeyError, which shows its lines as lines."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class ExceptionWrapper:
    """An exception as what can be sent to another process: its class and its traceback as text."""

    def __init__(self, exc_info=None, where: str = "in background") -> None:
        exc_info = sys.exc_info() if exc_info is None else exc_info
        self.exc_type, self.where = exc_info[0], where
        self.exc_msg = "".join(traceback.format_exception(*exc_info))

    def reraise(self):
        """Raises one of that class, with the traceback in its text."""
        text = f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        if issubclass(self.exc_type, KeyError):
            text = KeyErrorMessage(text)
        elif getattr(self.exc_type, "message", None):
            raise self.exc_type(message=text)
        try:
            error = self.exc_type(text)
        except Exception:
            raise RuntimeError(text) from None
        raise error


# ---- tensors made again --------------------------------------------------------------------------------------
def _rebuild_tensor(storage, storage_offset: int, size, stride):
    """A tensor over a typed storage."""
    return torch.empty(0, dtype=storage.dtype).set_(storage._untyped_storage, storage_offset, size, stride)


def _rebuild_tensor_v2(storage, storage_offset, size, stride, requires_grad, backward_hooks, metadata=None):
    """The same; `backward_hooks` and `metadata` are of older files."""
    tensor = _rebuild_tensor(storage, storage_offset, size, stride)
    tensor.requires_grad = requires_grad
    return tensor


def _rebuild_parameter(data, requires_grad, backward_hooks):
    """A parameter over `data`."""
    return torch.nn.Parameter(data, requires_grad)


# ---- others --------------------------------------------------------------------------------------------------
class classproperty:  # noqa: N801
    """A property of a class."""

    def __init__(self, func) -> None:
        self.func = func

    def __get__(self, instance, owner):
        return self.func(owner)


def is_compiling() -> bool:
    """torch.compiler.is_compiling()."""
    return torch.compiler.is_compiling()


def _import_dotted_name(name: str):
    """What stands at "package.module.name"."""
    first, *rest = name.split(".")
    found = import_module(first)
    for each in rest:
        found = getattr(found, each)
    return found


def try_import(module_name: str):
    """The module, None where it is not installed."""
    from importlib.util import find_spec

    return import_module(module_name) if find_spec(module_name) is not None else None


def cpu_count() -> int:
    """How many processors this process may use."""
    import os

    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
