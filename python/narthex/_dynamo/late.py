"""First calls under torch.compiler.set_stance("eager_then_compile") and "aot_eager_then_compile".

`call` gets the calls of functions that were never compiled from the capture engine: the first one runs uncompiled, or
compiled by `backend`; the second one leaves open the sizes that were others in the first.
"""

from weakref import WeakKeyDictionary

from .. import _C
from ..utils import _pytree as pytree

backend: list = [None]  # of first calls; None: they run uncompiled
_shapes: WeakKeyDictionary = WeakKeyDictionary()  # compiled function -> shapes of the tensors in its first call
_OPEN = "_dynamo_weak_dynamic_indices"


def _tensors(args: tuple, kwargs: dict) -> list:
    return [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, _C.TensorBase)]


def call(captured, args: tuple, kwargs: dict):
    """What captured(*args, **kwargs) returns."""
    tensors = _tensors(args, kwargs)
    if captured not in _shapes:
        _shapes[captured] = [tuple(t.shape) for t in tensors]
        if backend[0] is None:
            return captured.fn(*args, **kwargs)
        from .._compile import make_backend

        first = _C.CapturedFunction(captured.fn, make_backend(backend[0]), captured.fullgraph, None, "first")
        first.warm = True
        return first(*args, **kwargs)
    captured.warm = True
    marked = []
    for tensor, before in zip(tensors, _shapes.pop(captured)):
        changed = {k for k, (a, b) in enumerate(zip(before, tensor.shape)) if a != b}
        if len(before) == tensor.ndim and changed and not hasattr(tensor, _OPEN):
            setattr(tensor, _OPEN, changed)
            marked.append(tensor)
    try:
        return captured(*args, **kwargs)
    finally:
        for tensor in marked:
            delattr(tensor, _OPEN)
