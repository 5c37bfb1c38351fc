"""cond, while_loop, scan, map: control flow that elements decide, as functions. They run in Python, and gradients go
through what they ran. Under torch.compile `cond` by an element is one call with both branches; where one of them cannot
be traced so (it changes something, draws numbers, gives something else than the other), it is an `if` as any other."""

from .. import _C
from ..utils import _pytree as pytree


def _only_tensors(tree) -> bool:
    return all(isinstance(leaf, _C.TensorBase) for leaf in pytree.tree_leaves(tree))


def cond(pred, true_fn, false_fn, operands=()):
    """true_fn(*operands) if pred, else false_fn(*operands). pred: a bool, a number, or a tensor of one element.

    Unlike PyTorch, the branch that is not taken is not looked at, so that it may return something else.
    """
    is_tensor = isinstance(pred, _C.TensorBase)
    if not (is_tensor or isinstance(pred, (bool, int, float))) or (is_tensor and pred.numel() != 1):
        raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError("Expect both branches to be callable.")
    if not isinstance(operands, (tuple, list)) or not _only_tensors(operands):
        raise RuntimeError(
            "Expect operands to be a tuple of possibly nested dict/list/tuple that only consists of tensor leaves, "
            f"but got {operands}."
        )
    if is_tensor and _C.branch_follows():
        return _both(pred, true_fn, false_fn, operands)
    return true_fn(*operands) if pred else false_fn(*operands)


def _traced(function, operands):
    """The structure of what it gives: recorded as a branch, its results in memory of their own."""
    _C.branch_open()
    leaves, spec = pytree.tree_flatten(function(*operands))
    _C.branch_close(tuple([leaf.clone(memory_format=_C.contiguous_format) for leaf in leaves]))
    return spec


def _both(pred, true_fn, false_fn, operands):
    """In a function that is compiled: one call that holds both branches."""
    spec = _traced(true_fn, operands)
    if _traced(false_fn, operands) != spec:
        raise RuntimeError("cond: the branches must return the same structure")
    return pytree.tree_unflatten(list(_C.branches_join(pred)), spec)


def _kinds(tree) -> list:
    return [(tuple(leaf.shape), leaf.dtype) for leaf in pytree.tree_leaves(tree) if isinstance(leaf, _C.TensorBase)]


def while_loop(cond_fn, body_fn, carried_inputs):
    """carried = body_fn(*carried) as long as cond_fn(*carried); what body_fn returns has the shapes of what it got."""
    if not callable(cond_fn) or not callable(body_fn):
        raise RuntimeError("Expect cond_fn and body_fn to be callable.")
    if not isinstance(carried_inputs, (tuple, list)):
        raise RuntimeError(f"Expect carried_inputs to be a tuple or a list, but got {carried_inputs}.")
    carried = tuple(carried_inputs)
    while True:
        goes_on = cond_fn(*carried)
        if isinstance(goes_on, _C.TensorBase) and goes_on.numel() != 1:
            raise RuntimeError(f"cond_fn should return a boolean scalar tensor or a boolean but got {goes_on}")
        if not goes_on:
            return carried
        result = body_fn(*carried)
        if not isinstance(result, (tuple, list)) or _kinds(result) != _kinds(carried):
            raise RuntimeError(
                "body_fn should return as many tensors as it gets, of the same shapes and dtypes: "
                f"it got {_kinds(carried)} and returned {_kinds(result)}"
            )
        carried = tuple(result)


def _slices(tree, dim: int, at: int):
    return pytree.tree_map(lambda leaf: leaf.select(dim, at), tree)


def _stacked(results: list, dim: int = 0):
    leaves, specs = zip(*(pytree.tree_flatten(result) for result in results))
    if any(spec != specs[0] for spec in specs):
        raise RuntimeError("the function must return the same structure at each step")
    return pytree.tree_unflatten([_C.stack(list(column), dim) for column in zip(*leaves)], specs[0])


def scan(combine_fn, init, xs, *, dim: int = 0, reverse: bool = False):
    """carry, y = combine_fn(carry, x) for each slice x of xs along dim, from its end if reverse: (carry, all y stacked
    along dim in the order of xs)."""
    if not callable(combine_fn):
        raise RuntimeError(f"Combine_fn must be a callable, but got {combine_fn}")
    if not isinstance(dim, int):
        raise RuntimeError(f"Dim must be an int, but got {type(dim)}")
    if not isinstance(reverse, bool):
        raise RuntimeError(f"Reverse must be a bool, but got {type(reverse)}")
    if not _only_tensors(init) or not pytree.tree_leaves(init):
        raise RuntimeError(f"All init leaves must be a Tensor, and there must be one, but got {init}")
    leaves = pytree.tree_leaves(xs)
    if not leaves:
        return init, []
    if not _only_tensors(xs):
        raise RuntimeError(f"All xs leaves must be a Tensor but got {xs}")
    ndim = leaves[0].ndim
    if not -ndim <= dim < ndim:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but got {dim})")
    n, carry, results = leaves[0].size(dim), init, []
    if any(leaf.size(dim) != n for leaf in leaves):
        raise RuntimeError(f"All xs leaves must have {n} slices along dimension {dim}")
    if n == 0:
        raise RuntimeError(f"All xs leaves must at least have 1 number of elements on scan dimension {dim}")
    for at in reversed(range(n)) if reverse else range(n):
        result = combine_fn(carry, _slices(xs, dim, at))
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise RuntimeError(f"combine_fn must return (carry, y), but got {result}")
        if _kinds(result[0]) != _kinds(carry):
            raise RuntimeError(
                f"the carry must keep its shapes and dtypes: {_kinds(carry)} became {_kinds(result[0])}"
            )
        carry = result[0]
        results.append(result[1])
    return carry, _stacked(results[::-1] if reverse else results, dim)


def map(f, xs, *args):
    """f(x, *args) for each slice x of xs along the first dimension, the results stacked."""
    leaves = pytree.tree_leaves(xs)
    if not leaves or not _only_tensors(xs):
        raise RuntimeError(f"Mapped xs can only consist of tensors. Got xs {leaves}.")
    sizes = {leaf.size(0) if leaf.ndim else 0 for leaf in leaves}
    if sizes == {0}:
        raise RuntimeError("Leading dimensions of mapped xs cannot be 0.")
    if len(sizes) > 1:
        raise RuntimeError(f"Leading dimensions of mapped xs must be consistent. Got {sorted(sizes)}")
    return _stacked([f(_slices(xs, 0, at), *args) for at in range(sizes.pop())])
