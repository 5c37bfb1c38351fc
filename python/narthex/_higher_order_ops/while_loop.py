"""while_loop: a loop that an element decides, as a function. It runs in Python, and gradients go through what it ran.
Under torch.compile it is one call that holds its condition and its body
(docs/decisions/0020-branches-and-loops-in-graphs.md); where these cannot be traced so, or a number of Python is
carried, it is a loop as any other."""

from .. import _C
from .._tensor import Tensor
from ..utils import _pytree as pytree
from ._parts import check_alike, only_tensors, traced, uncaptured


def while_loop(cond_fn, body_fn, carried_inputs):
    """carried = body_fn(*carried) as long as cond_fn(*carried), which gives a bool or a tensor of one; what body_fn
    returns has the sizes, strides, dtypes and devices of what it got. The leaves are tensors and ints."""
    if not callable(cond_fn) or not callable(body_fn):
        raise RuntimeError("Expect cond_fn and body_fn to be callable.")
    leaves, spec = pytree.tree_flatten(carried_inputs)
    types = (Tensor, int, _C.SymInt)
    if not all(isinstance(leaf, (_C.TensorBase, int, _C.SymInt)) for leaf in leaves):
        raise AssertionError(f"{leaves} can only be of {types} but got {tuple(map(type, leaves))}")
    if only_tensors(leaves) and _C.parts_follow():
        return _one_call(cond_fn, body_fn, leaves, spec)
    return _steps(cond_fn, body_fn, leaves, spec)


def _goes_on(cond_fn, leaves, spec):
    goes_on = cond_fn(*pytree.tree_unflatten(leaves, spec))
    if isinstance(goes_on, _C.TensorBase) and (goes_on.dim() != 0 or goes_on.dtype is not _C.bool):
        raise uncaptured(f"Expected cond_fn to return a scalar tensor or a bool but got {goes_on.shape}.")
    if not isinstance(goes_on, (_C.TensorBase, bool)):
        raise RuntimeError(f"cond_fn must return a boolean scalar tensor or a boolean but got {goes_on}")
    if goes_on is True and only_tensors(leaves):
        raise uncaptured("Infinite loop detected because while_loop's cond_fn always returns the same value True.")
    return goes_on


def _step(body_fn, leaves, spec):
    result, out = pytree.tree_flatten(body_fn(*pytree.tree_unflatten(leaves, spec)))
    for leaf in result:
        if not isinstance(leaf, (_C.TensorBase, int, _C.SymInt)):
            text = "HigherOrderOperator body's output must consist of tensors or ints/bools only but got"
            raise uncaptured(f"{text} {type(leaf)}.")
    check_alike(result, leaves, ("body_fn_output", "carried_inputs"))
    return result, out


def _steps(cond_fn, body_fn, leaves, spec):
    n, out = 0, spec
    while _goes_on(cond_fn, leaves, spec):
        leaves, out = _step(body_fn, leaves, spec)
        n += 1
    if n == 0:
        leaves = [leaf.clone() if isinstance(leaf, _C.TensorBase) else leaf for leaf in leaves]
    return pytree.tree_unflatten(leaves, out)


def _one_call(cond_fn, body_fn, leaves, spec):
    """In a function that is compiled: one call that holds both."""
    given = tuple([leaf.contiguous() for leaf in leaves])
    traced(lambda *now: _goes_on(cond_fn, list(now), spec), given)
    out = traced(lambda *now: pytree.tree_unflatten(*_step(body_fn, list(now), spec)), given)
    return pytree.tree_unflatten(list(_C.parts_join(given)), out)
