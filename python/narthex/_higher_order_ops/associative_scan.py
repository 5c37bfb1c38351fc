"""associative_scan: all prefixes of a sequence under an associative function, in a logarithm of steps."""

from .. import _C
from .._vmap import vmap
from ..utils import _pytree as pytree


def _pieces(tree, dim: int, start: int, step: int, stop=None):
    leaves, spec = pytree.tree_flatten(tree)
    index = [slice(None)] * leaves[0].dim()
    index[dim] = slice(start, stop, step)
    return spec.unflatten([leaf[tuple(index)] for leaf in leaves])


def _interleave(even, odd, dim: int):
    """even[0], odd[0], even[1], …"""
    both = even.narrow(dim, 0, odd.size(dim))
    mixed = _C.stack([both, odd], dim + 1).flatten(dim, dim + 1)
    return mixed if even.size(dim) == odd.size(dim) else _C.cat([mixed, even.narrow(dim, odd.size(dim), 1)], dim)


def _scan(combine, tree, dim: int):
    leaves, spec = pytree.tree_flatten(tree)
    n = leaves[0].size(dim)
    if n < 2:
        return tree
    pairs = combine(_pieces(tree, dim, 0, 2, n - n % 2), _pieces(tree, dim, 1, 2))
    odd = _scan(combine, pairs, dim)
    odd_leaves = pytree.tree_leaves(odd)
    before = spec.unflatten([leaf.narrow(dim, 0, (n - 1) // 2) for leaf in odd_leaves])
    even = combine(before, _pieces(tree, dim, 2, 2)) if n > 2 else None
    parts = pytree.tree_leaves(even) if n > 2 else [None] * len(leaves)
    evens = [leaf.narrow(dim, 0, 1) if part is None else _C.cat([leaf.narrow(dim, 0, 1), part], dim)
             for leaf, part in zip(leaves, parts, strict=True)]  # fmt: skip
    return spec.unflatten([_interleave(e, o, dim) for e, o in zip(evens, odd_leaves, strict=True)])


def _check(combine_fn, leaves: list, dim: int, reverse, combine_mode: str) -> None:
    if not callable(combine_fn):
        raise ValueError(f"Combine_fn must be a callable, but got {combine_fn}")
    if not isinstance(reverse, bool):
        raise RuntimeError(f"Reverse must be a bool, but got {type(reverse)}")
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(f"Combine_mode must either 'pointwise' or 'generic', but got {combine_mode}")
    if any(not isinstance(leaf, _C.TensorBase) for leaf in leaves):
        raise ValueError("xs leaves must be a Tensor")
    if any(leaf.ndim <= dim or leaf.shape[dim] == 0 for leaf in leaves):
        raise ValueError("All xs leaves must at least have 'dim' number of dimensions and scan dimension > 0")


def associative_scan(combine_fn, xs, dim: int, reverse: bool = False, combine_mode: str = "pointwise"):
    """Prefixes along `dim`: result[k] = combine_fn(result[k - 1], xs[k]), for an associative `combine_fn` of two trees
    of tensors; from the end with `reverse`. `combine_fn` sees one slice ("generic"), or computes each element by itself
    and sees many slices at once ("pointwise"; unlike PyTorch's on every device)."""
    leaves, spec = pytree.tree_flatten(xs)
    ndim = leaves[0].ndim
    if not -ndim <= dim < ndim:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but got {dim})")
    dim = dim % ndim
    _check(combine_fn, leaves, dim, reverse, combine_mode)
    leaves = [leaf.movedim(dim, 0) for leaf in leaves]
    if reverse:
        leaves = [leaf.flip(0) for leaf in leaves]
    combine = combine_fn if combine_mode == "pointwise" else vmap(combine_fn)
    result = _scan(combine, spec.unflatten(leaves), 0)
    return pytree.tree_map(lambda x: (x.flip(0) if reverse else x).movedim(0, dim), result)
