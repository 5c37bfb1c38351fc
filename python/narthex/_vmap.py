"""vmap: a function of slices as a function of whole tensors.

The function is called once, with tensors that stand for all slices (src/batch, decision 0019): operators called with
them work on all slices at once. What asks for elements (`.item()`, `if` by elements, results whose size depends on
them) is refused as PyTorch refuses it.
"""

from typing import NamedTuple

import narthex as torch

from . import _C
from .utils._pytree import _broadcast_to_and_flatten, tree_flatten, tree_unflatten

RANDOMNESS = ("error", "different", "same")


class VmapInfo(NamedTuple):
    """What an autograd.Function's own rule is told of the map."""

    batch_size: int
    randomness: str


def _name(func) -> str:
    return getattr(func, "__name__", None) or repr(func)


# ---- in_dims -------------------------------------------------------------------------------------------------
def _refused(func, in_dims, text: str) -> ValueError:
    return ValueError(f"vmap({_name(func)}, in_dims={in_dims}, ...)(<inputs>): {text}")


def _check_dim(dim, arg, func, in_dims):
    """The dimension that is mapped, not negative; None."""
    if dim is None:
        return None
    if not isinstance(dim, int):
        raise _refused(
            func,
            in_dims,
            f"Got in_dim={dim} for an input but in_dim must be either an integer dimension or None.",
        )
    if not isinstance(arg, torch.Tensor):
        raise _refused(
            func,
            in_dims,
            f"Got in_dim={dim} for an input but the input is of type {type(arg)}. We cannot vmap "
            "over non-Tensor arguments, please use None as the respective in_dim",
        )
    if not -arg.dim() <= dim < arg.dim():
        raise _refused(
            func,
            in_dims,
            f"Got in_dim={dim} for some input, but that input is a Tensor of dimensionality "
            f"{arg.dim()} so expected in_dim to satisfy -{arg.dim()} <= in_dim < {arg.dim()}.",
        )
    return dim % arg.dim()


def _inputs(func, in_dims, args: tuple) -> tuple:
    """(leaves, their structure, a dimension or None for each, how many slices there are)."""
    if not isinstance(in_dims, int | tuple):
        raise _refused(
            func,
            in_dims,
            "expected `in_dims` to be int or a (potentially nested) tuple matching the structure of "
            f"inputs, got: {type(in_dims)}.",
        )
    if not args:
        raise ValueError(
            f"vmap({_name(func)})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap "
            "over a function with no inputs. The latter is unsupported."
        )
    leaves, spec = tree_flatten(args)
    dims = _broadcast_to_and_flatten(in_dims, spec)
    if dims is None:
        raise _refused(
            func,
            in_dims,
            "in_dims is not compatible with the structure of `inputs`. in_dims has structure "
            f"{tree_flatten(in_dims)[1]} but inputs has structure {spec}.",
        )
    dims = [_check_dim(dim, leaf, func, in_dims) for dim, leaf in zip(dims, leaves)]
    sizes = [leaf.shape[dim] for dim, leaf in zip(dims, leaves) if dim is not None]
    if not sizes:
        raise ValueError("vmap: Expected at least one Tensor to vmap over")
    if len(set(sizes)) > 1:
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, "
            f"got sizes {sizes} for the mapped dimension"
        )
    return leaves, spec, dims, sizes[0]


# ---- out_dims ------------------------------------------------------------------------------------------------
def _out_dims(func, out_dims, spec, outputs: list) -> list:
    leaves = tree_flatten(out_dims)[0]
    what = lambda: f"vmap({_name(func)}, ..., out_dims={out_dims})"  # noqa: E731
    if not all(dim is None or isinstance(dim, int) for dim in leaves):
        raise ValueError(
            f"{what()}: `out_dims` must be an int, None or a python collection of ints representing where in the "
            "outputs the vmapped dimension should appear."
        )
    one = isinstance(out_dims, tuple) and len(out_dims) == 1 and len(outputs) == 1
    dims = list(out_dims) if one else _broadcast_to_and_flatten(out_dims, spec)
    if dims is None:
        raise ValueError(
            f"{what()}(<inputs>): out_dims is not compatible with the structure of `outputs`. out_dims has structure "
            f"{tree_flatten(out_dims)[1]} but outputs has structure {spec}."
        )
    return dims


def _check_outputs(func, outputs: list, dims: list) -> None:
    for each, dim in zip(outputs, dims):
        if dim is not None and not isinstance(each, torch.Tensor):
            raise ValueError(
                f"vmap({_name(func)}, ...): `{_name(func)}` must only return Tensors, got type {type(each)}. "
                "Did you mean to set out_dims= to None for output?"
            )


def _given(func, each, dim, level: int):
    """A result as those outside see it."""
    if dim is None:
        if isinstance(each, torch.Tensor) and _C._batch_levels(each) >> level & 1:
            raise ValueError(
                f"vmap({_name(func)}, ...): `{_name(func)}` can not return a BatchedTensor when out_dim is None"
            )
        return each
    n = each.dim() + 1
    if not -n <= dim < n:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})")
    return _C._batch_give(each, dim % n, level)


# ---- the call ------------------------------------------------------------------------------------------------
run_by_steps = None  # _functorch.vmap's, once a package has put a step of its own there


def _run(func, in_dims, out_dims, randomness: str, args: tuple, kwargs: dict, chunk_size):
    if run_by_steps is not None:
        return run_by_steps(func, in_dims, out_dims, randomness, args, kwargs, chunk_size)
    leaves, spec, dims, n = _inputs(func, in_dims, args)
    if chunk_size is not None and n > chunk_size:
        return _by_chunks(func, out_dims, randomness, kwargs, (leaves, spec, dims, n), chunk_size)
    return _once(func, out_dims, randomness, kwargs, (leaves, spec, dims, n))[0]


def _once(func, out_dims, randomness: str, kwargs: dict, inputs: tuple) -> tuple:
    """(what the mapped function returns, where the slices of each result are, its structure)."""
    leaves, spec, dims, n = inputs
    level = _C._batch_enter(n, RANDOMNESS.index(randomness))
    try:
        taken = [each if dim is None else _C._batch_take(each, dim, level) for each, dim in zip(leaves, dims)]
        outputs, out_spec = tree_flatten(func(*tree_unflatten(taken, spec), **kwargs))
        places = _out_dims(func, out_dims, out_spec, outputs)
        _check_outputs(func, outputs, places)
        given = [_given(func, each, dim, level) for each, dim in zip(outputs, places)]
    finally:
        _C._batch_leave()
    return tree_unflatten(given, out_spec), places, out_spec


def _by_chunks(func, out_dims, randomness: str, kwargs: dict, inputs: tuple, chunk_size: int):
    leaves, spec, dims, n = inputs
    calls = []
    for start in range(0, n, chunk_size):
        length = min(chunk_size, n - start)
        part = [each if dim is None else each.narrow(dim, start, length) for each, dim in zip(leaves, dims)]
        result, places, out_spec = _once(func, out_dims, randomness, kwargs, (part, spec, dims, length))
        calls.append(tree_flatten(result)[0])
    columns = zip(places, zip(*calls))
    return tree_unflatten([parts[0] if dim is None else torch.cat(parts, dim) for dim, parts in columns], out_spec)


def map_rows(function, rows: list, chunk_size=None) -> list:
    """`function` of one row of each of `rows` (None: of none), for all rows in one call, or `chunk_size` at a time: its
    list of tensors and Nones, with a dimension for the rows in front."""
    n = next(len(each) for each in rows if each is not None)
    if chunk_size is not None and n > chunk_size:
        starts = range(0, n, chunk_size)
        parts = [
            map_rows(function, [None if each is None else each[k : k + chunk_size] for each in rows]) for k in starts
        ]
        return [None if column[0] is None else torch.cat(column) for column in zip(*parts)]
    level = _C._batch_enter(n, RANDOMNESS.index("same"))
    try:
        results = function(*(None if each is None else _C._batch_take(each, 0, level) for each in rows))
        return [None if each is None else _C._batch_give(each, 0, level) for each in results]
    finally:
        _C._batch_leave()


def of_all_levels(x):
    """`x` as a slice of every open level: what each slice has for itself, such as a gradient, is asked of it."""
    for level, size, _ in _C._batch_open():
        if not _C._batch_levels(x) >> level & 1:
            x = _C._batch_take(x.unsqueeze(0).expand(size, *x.shape), 0, level)
    return x


# ---- what is no operator of ours ------------------------------------------------------------------------------
def _unmapped(args: tuple) -> tuple:
    """The innermost level that an argument is a slice of: (number, size, randomness); arguments with all its slices in
    front, and the tree of 0 for those and None for the others."""
    leaves, spec = tree_flatten(args)
    levels = [_C._batch_levels(leaf) if isinstance(leaf, _C.TensorBase) else 0 for leaf in leaves]
    row = next(row for row in reversed(_C._batch_open()) if any(each >> row[0] & 1 for each in levels))
    mapped = [each >> row[0] & 1 for each in levels]
    taken = [_C._batch_give(leaf, 0, row[0]) if is_mapped else leaf for leaf, is_mapped in zip(leaves, mapped)]
    return row, taken, [0 if is_mapped else None for is_mapped in mapped], spec


def by_rule(rule, args: tuple):
    """`rule(info, in_dims, *args)`, which gives (results, their dimensions), with all slices of the innermost level."""
    (number, size, randomness), taken, dims, spec = _unmapped(args)
    info = VmapInfo(size, RANDOMNESS[randomness])
    given, out_dims = rule(info, tree_unflatten(dims, spec), *tree_unflatten(taken, spec))
    results = given if isinstance(given, tuple) else (given,)
    dims = out_dims if isinstance(out_dims, tuple) else (out_dims,) * len(results)
    made = [r if d is None else _C._batch_take(r, d % r.dim(), number) for r, d in zip(results, dims, strict=True)]
    return tuple(made) if isinstance(given, tuple) else made[0]


def by_slices(function, args: tuple):
    """`function(*args)` with one slice after the other of the innermost level; its tensors are stacked."""
    (number, size, _), taken, dims, spec = _unmapped(args)
    if size == 0:
        raise RuntimeError("vmap: an operator in Python, called slice by slice, tells nothing of no slices")
    one = lambda k: tree_unflatten([each if d is None else each[k] for each, d in zip(taken, dims)], spec)  # noqa: E731
    calls = [tree_flatten(function(*one(k))) for k in range(size)]
    columns = zip(*(leaves for leaves, _ in calls))
    made = [_C._batch_take(torch.stack(column), 0, number) for column in columns]
    return tree_unflatten(made, calls[0][1])


# ---- vmap ------------------------------------------------------------------------------------------------------
def vmap(func, in_dims=0, out_dims=0, randomness: str = "error", *, chunk_size=None):
    """A function that maps `func` over dimension `in_dims` of its arguments and puts its results along `out_dims`.

    `in_dims` and `out_dims` are numbers, or have the structure of the arguments and results, with None for what is not
    mapped; keyword arguments are not. `randomness`: "error", "same" or "different" for all slices. `chunk_size`: how
    many slices are computed in one call (None: all), for the sake of memory.
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    def wrapped(*args, **kwargs):
        return _run(func, in_dims, out_dims, randomness, args, kwargs, chunk_size)

    for name in ("__name__", "__qualname__", "__doc__", "__module__"):
        if hasattr(func, name):
            setattr(wrapped, name, getattr(func, name))
    wrapped.__wrapped__ = func
    return wrapped
