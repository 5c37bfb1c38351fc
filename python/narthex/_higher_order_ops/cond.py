"""cond: a branch that an element decides, as a function. It runs in Python, and gradients go through what it ran. Under
torch.compile, by an element, it is one call with both branches (docs/decisions/0020-branches-and-loops-in-graphs.md);
where one of them cannot be traced so (it changes something, gives something else than the other), it is an `if` as any
other."""

from .. import _C
from ..utils import _pytree as pytree
from ._parts import only_tensors, traced


def cond(pred, true_fn, false_fn, operands=()):
    """true_fn(*operands) if pred, else false_fn(*operands). pred: a bool, a number, or a tensor of one element.

    Unlike PyTorch, the branch that is not taken is not looked at, so that it may return something else.
    """
    is_tensor = isinstance(pred, _C.TensorBase)
    if not (is_tensor or isinstance(pred, (bool, int, float))) or (is_tensor and pred.numel() != 1):
        raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError("Expect both branches to be callable.")
    if not isinstance(operands, (tuple, list)) or not only_tensors(operands):
        raise RuntimeError(
            "Expect operands to be a tuple of possibly nested dict/list/tuple that only consists of tensor leaves, "
            f"but got {operands}."
        )
    if is_tensor and _C.parts_follow():
        return _both(pred, true_fn, false_fn, operands)
    return true_fn(*operands) if pred else false_fn(*operands)


def _both(pred, true_fn, false_fn, operands):
    """In a function that is compiled: one call that holds both branches."""
    spec = traced(lambda: true_fn(*operands))
    if traced(lambda: false_fn(*operands)) != spec:
        raise RuntimeError("cond: the branches must return the same structure")
    return pytree.tree_unflatten(list(_C.parts_join(pred)), spec)
