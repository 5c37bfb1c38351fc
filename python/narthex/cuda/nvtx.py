"""torch.cuda.nvtx: marks for a profiler of CUDA, which is not there: every call raises as PyTorch without CUDA does."""

from contextlib import contextmanager

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]


def _raise():
    raise RuntimeError("NVTX functions not installed. Are you sure you have a CUDA build?")


def range_push(msg):
    """Raises."""
    _raise()


def range_pop():
    """Raises."""
    _raise()


def range_start(msg) -> int:
    """Raises."""
    _raise()


def range_end(range_id) -> None:
    """Raises."""
    _raise()


def mark(msg):
    """Raises."""
    _raise()


@contextmanager
def range(msg, *args, **kwargs):
    """Raises when it is entered."""
    range_push(msg.format(*args, **kwargs))
    yield
