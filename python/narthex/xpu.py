"""torch.xpu: there is none. Questions are answered, the rest raises."""

from ._absent import getter

_NONE = "Torch not compiled with XPU enabled: Narthex has no xpu device"


def is_available() -> bool:
    """False."""
    return False


def device_count() -> int:
    """0"""
    return 0


def manual_seed(seed: int) -> None:
    """Nothing: there is no generator to seed."""
    int(seed)


def is_current_stream_capturing() -> bool:
    """False: there is no stream."""
    return False


def is_initialized() -> bool:
    """False."""
    return False


def manual_seed_all(seed: int) -> None:
    """Nothing: there is no generator to seed."""
    int(seed)


def current_device() -> int:
    """Raises: there is none."""
    raise AssertionError(_NONE)


def set_device(device) -> None:
    """Raises: there is none."""
    raise AssertionError(_NONE)


def get_device_name(device=None) -> str:
    """Raises: there is none."""
    raise AssertionError(_NONE)


def get_device_capability(device=None) -> dict:
    """Raises: there is none."""
    raise AssertionError(_NONE)


def empty_cache() -> None:
    """Nothing: no memory is held."""


def synchronize(*device) -> None:
    """Raises: there is none."""
    raise AssertionError(_NONE)


__getattr__ = getter("torch.xpu")
