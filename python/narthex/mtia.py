"""torch.mtia: there is none. Questions are answered, the rest raises."""

from ._absent import getter

_NONE = "Torch not compiled with MTIA enabled: Narthex has no mtia device"


def is_available() -> bool:
    """False."""
    return False


def is_initialized() -> bool:
    """False."""
    return False


def device_count() -> int:
    """0"""
    return 0


def manual_seed(seed: int) -> None:
    """Nothing: there is no generator to seed."""
    int(seed)


def manual_seed_all(seed: int) -> None:
    """Nothing: there is no generator to seed."""
    int(seed)


def init() -> None:
    """Raises: there is none."""
    raise AssertionError(_NONE)


def synchronize(*device) -> None:
    """Raises: there is none."""
    raise AssertionError(_NONE)


def current_device() -> int:
    """Raises: there is none."""
    raise AssertionError(_NONE)


def empty_cache() -> None:
    """Nothing: no memory is held."""


__getattr__ = getter("torch.mtia")
