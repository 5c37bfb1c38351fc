"""scan: a loop over slices that carries something. It runs in Python, and gradients go through what it ran; in a
function that is compiled its steps stand in the graph one after the other."""

from .. import _C
from ..utils import _pytree as pytree
from ._parts import check_alike, stacked, uncaptured


def _check(combine_fn, leaves: list, init: list, dim: int, reverse) -> None:
    if not callable(combine_fn):
        raise RuntimeError(f"Combine_fn must be a callable, but got {combine_fn}")
    if not isinstance(reverse, bool):
        raise RuntimeError(f"Reverse must be a bool, but got {type(reverse)}")
    if not init:
        raise RuntimeError("scan() operator requires init leaves.")
    for name, given in (("init", init), ("xs", leaves)):
        for leaf in given:
            if not isinstance(leaf, _C.TensorBase):
                raise RuntimeError(f"All {name} leaves must be a Tensor but got {leaf}")
    if any(leaf.ndim <= dim or leaf.shape[dim] == 0 for leaf in leaves):
        text = "All xs leaves must at least have 'dim' number of dimensions and scan dimension > 0"
        raise RuntimeError(text)


def scan(combine_fn, init, xs, *, dim: int = 0, reverse: bool = False):
    """carry, y = combine_fn(carry, x) for each slice x of xs along dim, from its end if reverse: (carry, all y stacked
    along dim in the order of xs)."""
    first, spec = pytree.tree_flatten(init)
    leaves, of_xs = pytree.tree_flatten(xs)
    if not leaves:
        return init, []
    ndim = leaves[0].ndim if isinstance(leaves[0], _C.TensorBase) else 0
    if ndim and not -ndim <= dim < ndim:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but got {dim})")
    dim = dim % ndim if ndim else dim
    _check(combine_fn, leaves, first, dim, reverse)
    n, slices, carry, results, out = leaves[0].size(dim), [leaf.unbind(dim) for leaf in leaves], first, [], spec
    for at in reversed(range(n)) if reverse else range(n):
        given = pytree.tree_unflatten([leaf[at] for leaf in slices], of_xs)
        result = combine_fn(pytree.tree_unflatten(carry, spec), given)
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise uncaptured(f"Expect combine_fn to return a tuple (next_carry, y) but got {result}.")
        next_carry, out = pytree.tree_flatten(result[0])
        check_alike(first, next_carry, ("init", "carry"))
        carry = next_carry
        results.append(result[1])
    ys = stacked(results[::-1] if reverse else results)
    if dim:
        ys = pytree.tree_map(lambda y: y.movedim(0, dim) if dim < y.ndim else y, ys)
    return pytree.tree_unflatten(carry, out), ys
