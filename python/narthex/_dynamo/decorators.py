"""What programs say to capture: which sizes are left open, where a graph ends, which results are constants."""

from functools import wraps

from .. import _C
from ..compiler import set_stance
from .types import skip_code

graph_break = _C.graph_break  # itself, so that the graph ends at its call and nothing of it is captured


def _mark(t, index, name: str) -> None:
    if not isinstance(t, _C.TensorBase):
        raise TypeError(f"{name}: got a {type(t).__name__}, expected a tensor")
    indices = index if isinstance(index, (list, tuple)) else [index]
    if not hasattr(t, name):
        setattr(t, name, set())
    getattr(t, name).update(k + t.ndim if k < 0 else k for k in indices)


def mark_dynamic(t, index, *, hint_override=None, min=None, max=None, specialize_on=None) -> None:
    """The sizes of `t` in dimension `index`, or in each of a list, are left open from the first capture on.

    Unlike PyTorch, code that fixes such a size is compiled for it and raises nothing. Bounds and hints are taken and
    change nothing: each shape that comes has a program of its own.
    """
    if min is not None and max is not None and min > max:
        raise ValueError(f"mark_dynamic: min={min} is larger than max={max}")
    _mark(t, index, "_dynamo_dynamic_indices")


def maybe_mark_dynamic(t, index) -> None:
    """The same as mark_dynamic: what fixes the size is no error in either."""
    _mark(t, index, "_dynamo_weak_dynamic_indices")


def mark_static(t, index=None) -> None:
    """The sizes of `t` in dimension `index` (each of a list; all, without) are never left open."""
    if not isinstance(t, _C.TensorBase):
        raise NotImplementedError(f"mark_static: of a {type(t).__name__} is not there yet, only of tensors")
    _mark(t, list(range(t.ndim)) if index is None else index, "_dynamo_static_indices")


def assume_constant_result(fn):
    """`fn` is called once for each set of arguments (constants, enumerations, classes) and its result is a constant of
    the graph; what it reads is not guarded."""
    fn._dynamo_marked_constant = True
    return fn


def skip(fn=None):
    """`fn` itself: a call of it ends the graph and runs uncompiled, what it calls is compiled."""
    if fn is None:
        return skip
    function = getattr(fn, "__func__", fn)
    skip_code(function.__code__)
    function._torchdynamo_disable = True
    return fn


def run(fn=None):
    """A callable like `fn` in which compiled functions run what they have and compile nothing more."""
    if fn is None:
        return run

    @wraps(fn)
    def inner(*args, **kwargs):
        with set_stance("eager_on_recompile"):
            return fn(*args, **kwargs)

    inner._torchdynamo_orig_callable = fn
    return inner
