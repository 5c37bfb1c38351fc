"""torch.mps: there is none. Questions are answered, the rest raises."""

from ._absent import getter

_NONE = "Torch not compiled with MPS enabled: Narthex has no mps device"


def is_available() -> bool:
    """False."""
    return False


def device_count() -> int:
    """0"""
    return 0


def manual_seed(seed: int) -> None:
    """Nothing: there is no generator to seed."""
    int(seed)


def empty_cache() -> None:
    """Nothing: no memory is held."""


def synchronize(*device) -> None:
    """Raises: there is none."""
    raise AssertionError(_NONE)


__getattr__ = getter("torch.mps")
