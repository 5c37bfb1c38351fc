"""torch.cuda, answered as a PyTorch without CUDA does: nothing is there, seeds are accepted, the rest raises."""

from .._absent import absent

_MISSING = "Torch not compiled with CUDA enabled: Narthex has no CUDA device"


def is_available() -> bool:
    """False."""
    return False


def is_initialized() -> bool:
    """False."""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """False."""
    return False


def device_count() -> int:
    """0"""
    return 0


def init() -> None:
    """Raises: there is nothing to start."""
    raise AssertionError(_MISSING)


def current_device() -> int:
    """Raises: there is none."""
    raise AssertionError(_MISSING)


def get_device_name(device=None) -> str:
    """Raises: there is none."""
    raise AssertionError(_MISSING)


def get_device_properties(device=None):
    """Raises: there is none."""
    raise AssertionError(_MISSING)


def get_device_capability(device=None):
    """Raises: there is none."""
    raise AssertionError(_MISSING)


def synchronize(device=None) -> None:
    """Raises: there is none."""
    raise AssertionError(_MISSING)


def set_device(device) -> None:
    """Raises, unless `device` is a negative index, which asks for nothing."""
    if not (isinstance(device, int) and device < 0):
        raise AssertionError(_MISSING)


def manual_seed(seed: int) -> None:
    """Nothing: there is no generator to seed."""
    int(seed)


def manual_seed_all(seed: int) -> None:
    """Nothing: there is no generator to seed."""
    int(seed)


def empty_cache() -> None:
    """Nothing: no memory is held."""


def memory_allocated(device=None) -> int:
    """0"""
    return 0


def max_memory_allocated(device=None) -> int:
    """0"""
    return 0


def memory_reserved(device=None) -> int:
    """0"""
    return 0


def max_memory_reserved(device=None) -> int:
    """0"""
    return 0


def __getattr__(name: str):
    if name == "amp":
        from importlib import import_module

        return import_module(f"{__name__}.amp")
    raise absent("torch.cuda", name)
