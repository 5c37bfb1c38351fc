"""torch._dynamo: capture. The work is done in C (py/capture, py/guard); here are its Python names."""

from .._apart import disable
from ..autograd import function as _function
from ..compiler import is_compiling
from . import backends, config, convert_frame, eval_frame
from .backends import list_backends, lookup, register_backend
from .eval_frame import OptimizedModule, optimize

__all__ = [
    "OptimizedModule", "backends", "config", "convert_frame", "disable", "eval_frame", "is_compiling", "list_backends",
    "lookup", "optimize", "register_backend", "reset",
]  # fmt: skip

_function._apply_apart = disable(_function._apply)


def assume_constant_result(fn):
    """`fn` as it is: capture follows it and finds by itself what is constant."""
    return fn


def allow_in_graph(fn):
    """`fn` as it is: capture follows it, and its operators are the graph's."""
    return fn


def mark_static_address(t, guard: bool = True) -> None:
    """Nothing: compiled programs read a tensor's address at each call."""


def reset() -> None:
    """Forgets every compiled function, so that the next call captures again."""
    for each in list(eval_frame.captured_functions):
        each.reset()
