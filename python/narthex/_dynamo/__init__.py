"""torch._dynamo: capture. The work is done in C (py/capture, py/guard); here are its Python names."""

from . import backends, config, convert_frame, eval_frame
from .backends import list_backends, lookup, register_backend
from .eval_frame import OptimizedModule, optimize

__all__ = [
    "OptimizedModule", "backends", "config", "convert_frame", "disable", "eval_frame", "list_backends", "lookup",
    "optimize", "register_backend", "reset",
]  # fmt: skip


def reset() -> None:
    """Forgets every compiled function, so that the next call captures again."""
    from .. import _C

    if not hasattr(_C, "capture_reset"):
        raise NotImplementedError("_dynamo.reset: compile the function again with torch.compile instead")
    _C.capture_reset()


def disable(fn=None, recursive: bool = True):
    """Marks a function that is never captured: a call of it splits the graph."""
    if fn is None:
        return lambda function: disable(function, recursive)
    fn._torchdynamo_disable = True
    return fn
