"""torch.accelerator: the accelerator of this process, which is npu once a program has imported torch_npu, else none."""

import sys

from . import _C
from ._absent import getter

_NONE = "Cannot access accelerator device when none is available."


def _npu(needed: bool = True):
    """torch.npu where a program has imported torch_npu; without it None, or RuntimeError when it is `needed`."""
    module = sys.modules.get("narthex.compat.torch_npu")
    if module is not None:
        return module.npu
    if needed:
        raise RuntimeError(_NONE)
    return None


def is_available() -> bool:
    """Whether there is an accelerator that can be used."""
    npu = _npu(False)
    return npu is not None and npu.is_available()


def device_count() -> int:
    """How many there are."""
    npu = _npu(False)
    return 0 if npu is None else npu.device_count()


def current_accelerator(check_available: bool = False):
    """The accelerator's device type as a device without index, or None."""
    return None if not is_available() else _C.device("npu")


def current_device_index() -> int:
    """The index of this thread's current device; RuntimeError without an accelerator."""
    return _npu().current_device()


current_device_idx = current_device_index


def set_device_index(device, /) -> None:
    """Makes `device` this thread's current one; RuntimeError without an accelerator."""
    _npu().set_device(device)


set_device_idx = set_device_index


def synchronize(device=None, /) -> None:
    """Waits for all work given to the device; RuntimeError without an accelerator."""
    _npu().synchronize(device)


def current_stream(device=None, /):
    """This thread's stream; RuntimeError without an accelerator."""
    return _npu().current_stream(device)


def set_stream(stream, /) -> None:
    """Makes `stream` this thread's; RuntimeError without an accelerator."""
    _npu().set_stream(stream)


def empty_cache() -> None:
    """Gives memory that is kept and not used back to the system."""
    npu = _npu(False)
    if npu is not None:
        npu.empty_cache()


def memory_stats(device=None, /) -> dict:
    """The allocator's counters; none without an accelerator."""
    npu = _npu(False)
    return {} if npu is None else npu.memory_stats(device)


def _bytes(name: str, device) -> int:
    npu = _npu(False)
    return 0 if npu is None else getattr(npu, name)(device)


def memory_allocated(device=None, /) -> int:
    """Bytes that tensors hold."""
    return _bytes("memory_allocated", device)


def max_memory_allocated(device=None, /) -> int:
    """The most bytes that tensors have held."""
    return _bytes("max_memory_allocated", device)


def memory_reserved(device=None, /) -> int:
    """Bytes taken from the device."""
    return _bytes("memory_reserved", device)


def max_memory_reserved(device=None, /) -> int:
    """The most bytes that were taken from the device."""
    return _bytes("max_memory_reserved", device)


def reset_peak_memory_stats(device=None, /) -> None:
    """The peaks begin again."""
    npu = _npu(False)
    if npu is not None:
        npu.reset_peak_memory_stats(device)


class device_index:  # noqa: N801  (PyTorch's name)
    """A context in which the device of that index is the current one; None changes nothing."""

    def __init__(self, device, /) -> None:
        self.index, self.before = device, None

    def __enter__(self) -> None:
        if self.index is not None:
            self.before = current_device_index()
            set_device_index(self.index)

    def __exit__(self, *error) -> None:
        if self.index is not None:
            set_device_index(self.before)


__getattr__ = getter("torch.accelerator")
