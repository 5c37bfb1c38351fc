"""oneDNN's kernels are not there; without `enabled` recurrent layers go step by step, as they do in PyTorch."""

from contextlib import contextmanager

enabled = True


def is_available() -> bool:
    """False."""
    return False


@contextmanager
def flags(enabled: bool = False, deterministic: bool = False, allow_tf32: bool = True, fp32_precision: str = "none"):
    """Sets `enabled` within a `with` statement; the others change nothing."""
    own = globals()
    before, own["enabled"] = own["enabled"], enabled
    try:
        yield
    finally:
        own["enabled"] = before
