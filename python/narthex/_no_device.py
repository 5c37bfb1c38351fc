"""What torch.mps, torch.xpu and torch.mtia say: there is none. Questions are answered, the rest raises."""


def is_available() -> bool:
    """False."""
    return False


def is_initialized() -> bool:
    """False."""
    return False


def is_current_stream_capturing() -> bool:
    """False: there is no stream."""
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


def empty_cache() -> None:
    """Nothing: no memory is held."""


def refusing(kind: str):
    """A function that raises, as PyTorch's does where it was built without this kind of device."""

    def refuse(*args, **kwargs):
        raise AssertionError(f"Torch not compiled with {kind.upper()} enabled: Narthex has no {kind} device")

    return refuse
