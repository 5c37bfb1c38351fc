"""map: a function of each slice. It runs in Python, and gradients go through what it ran; in a function that is
compiled its steps stand in the graph one after the other."""

from .. import _C
from ..utils import _pytree as pytree
from ._parts import only_tensors, stacked, uncaptured


def map(f, xs, *args):
    """f(x, *args) for each slice x of xs along the first dimension, the results stacked."""
    leaves, spec = pytree.tree_flatten(xs)
    if not only_tensors(leaves):
        raise RuntimeError(f"Mapped xs can only consist of tensors. Got xs {leaves}.")
    shapes = [leaf.shape for leaf in leaves]
    if shapes[0][0] == 0:
        raise RuntimeError("Leading dimensions of mapped xs cannot be 0.")
    if any(shape[0] != shapes[0][0] for shape in shapes):
        raise RuntimeError(f"Leading dimensions of mapped xs must be consistent. Got shapes {shapes}.")
    results = [f(pytree.tree_unflatten(list(slices), spec), *args) for slices in zip(*(x.unbind(0) for x in leaves))]
    if results[0] is None:
        return None
    for leaf in pytree.tree_leaves(results):
        if not isinstance(leaf, _C.TensorBase):
            raise uncaptured("Expected all leaves to be of torch.Tensor type.")
    return stacked(results)
