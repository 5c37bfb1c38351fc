"""torch._dynamo: capture. The work is done in C (py/capture, py/guard); here are its Python names."""

from functools import partial, update_wrapper

from ..compiler import is_compiling
from . import backends, config, convert_frame, eval_frame
from .backends import list_backends, lookup, register_backend
from .eval_frame import OptimizedModule, optimize

__all__ = [
    "OptimizedModule", "backends", "config", "convert_frame", "disable", "eval_frame", "is_compiling", "list_backends",
    "lookup", "optimize", "register_backend", "reset",
]  # fmt: skip


def reset() -> None:
    """Forgets every compiled function, so that the next call captures again."""
    for each in list(eval_frame.captured_functions):
        each.reset()


class _Apart(partial):
    """A function that is never captured: C code that the tracer does not know calls it."""

    def __get__(self, instance, owner=None):
        return self if instance is None else _Apart(self.func, instance)


def disable(fn=None, recursive: bool = True):
    """A callable like `fn` that is never captured: a call of it splits the graph and runs uncompiled."""
    if not recursive:
        raise NotImplementedError("disable: recursive=False is not there yet")
    return disable if fn is None else update_wrapper(_Apart(fn), fn)
