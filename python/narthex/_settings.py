"""Settings that PyTorch's programs write and read back."""

from . import _C
from ._later import class_for

__all__ = [
    "are_deterministic_algorithms_enabled", "get_float32_matmul_precision", "get_num_interop_threads",
    "is_deterministic_algorithms_warn_only_enabled", "set_default_device", "set_float32_matmul_precision",
    "set_num_interop_threads", "use_deterministic_algorithms", "get_default_device", "get_device_module",
    "get_deterministic_debug_mode", "set_deterministic_debug_mode", "Event", "Stream", "OutOfMemoryError",
    "AcceleratorError",
]  # fmt: skip

_kept = {"deterministic": False, "warn_only": False, "interop_threads": 1}


def set_float32_matmul_precision(precision: str) -> None:
    """Kept only: products of float32 are computed in float32 whatever is allowed."""
    from ._precision import set_products

    set_products(precision)


def get_float32_matmul_precision() -> str:
    """What set_float32_matmul_precision was given, or what says the same in torch.backends."""
    from ._precision import products

    return products()


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Kept only: every operator gives the same numbers each time."""
    _kept["deterministic"], _kept["warn_only"] = bool(mode), bool(warn_only)


def are_deterministic_algorithms_enabled() -> bool:
    """What use_deterministic_algorithms was given."""
    return _kept["deterministic"]


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """What use_deterministic_algorithms was given as warn_only."""
    return _kept["warn_only"]


def set_num_interop_threads(n: int) -> None:
    """Kept only: operators run one after the other."""
    if n <= 0:
        raise RuntimeError("set_num_interop_threads: expected a positive number of threads")
    _kept["interop_threads"] = n


def get_num_interop_threads() -> int:
    """What set_num_interop_threads was given."""
    return _kept["interop_threads"]


def set_default_device(device) -> None:
    """Where tensors are made of which nobody says it; None: on the CPU."""
    _C.set_default_device(device)


def get_default_device():
    """The device of tensors that are made without one."""
    return _C.get_default_device()


def get_device_module(device=None):
    """The module of a device's type: torch.cpu, torch.cuda, torch.npu ...; None: of the accelerator, or the CPU."""
    import narthex

    from .accelerator import current_accelerator

    if device is None:
        device = current_accelerator() or "cpu"
    name = device.type if isinstance(device, narthex.device) else str(device).partition(":")[0]
    module = getattr(narthex, name, None)
    if module is None:
        raise RuntimeError(f"Device '{name}' does not have a corresponding module registered as 'torch.{name}'.")
    return module


def set_deterministic_debug_mode(debug_mode) -> None:
    """0 or "default", 1 or "warn", 2 or "error": kept only, every operator gives the same numbers each time."""
    names = ("default", "warn", "error")
    mode = names.index(debug_mode) if debug_mode in names else debug_mode
    if mode not in (0, 1, 2):
        known = "0, 1, 2, 'default', 'warn', 'error'"
        raise RuntimeError(f"invalid value of debug_mode, expected one of {known}, got {mode}")
    use_deterministic_algorithms(mode > 0, warn_only=mode == 1)


def get_deterministic_debug_mode() -> int:
    """What set_deterministic_debug_mode was given, as a number."""
    return 0 if not _kept["deterministic"] else 1 if _kept["warn_only"] else 2


class OutOfMemoryError(RuntimeError):
    """What PyTorch raises where an accelerator's memory is used up; here that is a MemoryError."""


class AcceleratorError(RuntimeError):
    """What PyTorch raises where an accelerator fails."""


class Stream:
    """A queue of work of an accelerator; making one needs torch_npu, whose streams are torch.npu's."""

    def __init__(self, device=None, *, priority: int = 0) -> None:
        raise RuntimeError("torch.Stream: no accelerator is available; torch.npu.Stream() makes one of an npu")


class Event:
    """A mark in a queue of work of an accelerator; making one needs torch_npu, whose events are torch.npu's."""

    def __init__(self, device=None, *, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False):
        raise RuntimeError("torch.Event: no accelerator is available; torch.npu.Event() makes one of an npu")

PyTorchFileReader = class_for("torch.PyTorchFileReader", "use torch.load")
PyTorchFileWriter = class_for("torch.PyTorchFileWriter", "use torch.save")
