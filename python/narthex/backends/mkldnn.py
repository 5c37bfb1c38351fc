"""oneDNN's kernels are not there; without `enabled` recurrent layers go step by step, as they do in PyTorch."""

from contextlib import contextmanager

from .. import _precision

enabled = True
matmul, conv, rnn = (_precision.Kind("mkldnn", kind) for kind in ("matmul", "conv", "rnn"))


def is_available() -> bool:
    """False."""
    return False


@contextmanager
def flags(enabled: bool = False, deterministic: bool = False, allow_tf32: bool = True, fp32_precision: str = "none"):
    """Sets `enabled` and `fp32_precision` within a `with` statement; the others change nothing."""
    own = globals()
    word = _precision.set_word("mkldnn", "all", fp32_precision)
    before, own["enabled"] = own["enabled"], enabled
    try:
        yield
    finally:
        own["enabled"] = before
        _precision.set_word("mkldnn", "all", word)
