"""Settings of cuDNN, which is not there; they change nothing."""

from .._absent import getter

enabled = True
benchmark = False
benchmark_limit = 10
deterministic = False
allow_tf32 = True


def is_available() -> bool:
    """False."""
    return False


def version() -> None:
    """None."""


def is_acceptable(tensor) -> bool:
    """False."""
    return False


__getattr__ = getter("torch.backends.cudnn")
