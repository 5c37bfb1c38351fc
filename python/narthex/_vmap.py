"""vmap: a function of slices as a function of whole tensors.

The function is called once for each slice, and what it returns is stacked; so every operator, every gradient and every
other transform works inside, in the same order for all nestings. What PyTorch refuses because it calls the function
once for all slices (`.item()`, control flow by elements, results whose size depends on them) works; what would then
mean something else is refused as PyTorch refuses it: drawing numbers in randomness "error", and writing into an
argument that is not mapped or, of a module, into what it holds.
"""

import narthex as torch

from .utils._pytree import _broadcast_to_and_flatten, tree_flatten, tree_unflatten

_DRAWN = (
    "vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' "
    "randomness flags on vmap or perform the randomness operation out of vmap"
)
_WRITTEN = (
    "vmap: inplace arithmetic(self, *extra_args) is not possible because there exists a Tensor `other` in extra_args "
    "that has more elements than `self`. This happened due to `other` being vmapped over but `self` not being vmapped "
    "over in a vmap. Please try to use out-of-place operators instead of inplace arithmetic. If said operator is being "
    "called inside the PyTorch framework, please file a bug report instead."
)


def _name(func) -> str:
    return getattr(func, "__name__", None) or repr(func)


# ---- in_dims -------------------------------------------------------------------------------------------------
def _check_dim(dim, arg, what: str):
    """The dimension that is mapped, not negative; None."""
    if dim is None:
        return None
    if not isinstance(dim, int):
        raise ValueError(
            f"{what}(<inputs>): Got in_dim={dim} for an input but in_dim must be either an integer dimension or None."
        )
    if not isinstance(arg, torch.Tensor):
        raise ValueError(
            f"{what}(<inputs>): Got in_dim={dim} for an input but the input is of type {type(arg)}. We cannot vmap "
            "over non-Tensor arguments, please use None as the respective in_dim"
        )
    if not -arg.dim() <= dim < arg.dim():
        raise ValueError(
            f"{what}(<inputs>): Got in_dim={dim} for some input, but that input is a Tensor of dimensionality "
            f"{arg.dim()} so expected in_dim to satisfy -{arg.dim()} <= in_dim < {arg.dim()}."
        )
    return dim % arg.dim()


def _inputs(func, in_dims, args: tuple) -> tuple:
    """(leaves, their structure, a dimension or None for each, how many slices there are)."""
    what = f"vmap({_name(func)}, in_dims={in_dims}, ...)"
    if not isinstance(in_dims, int | tuple):
        raise ValueError(
            f"{what}(<inputs>): expected `in_dims` to be int or a (potentially nested) tuple matching the structure of "
            f"inputs, got: {type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"vmap({_name(func)})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap "
            "over a function with no inputs. The latter is unsupported."
        )
    leaves, spec = tree_flatten(args)
    dims = _broadcast_to_and_flatten(in_dims, spec)
    if dims is None:
        raise ValueError(
            f"{what}(<inputs>): in_dims is not compatible with the structure of `inputs`. in_dims has structure "
            f"{tree_flatten(in_dims)[1]} but inputs has structure {spec}."
        )
    dims = [_check_dim(dim, leaf, what) for dim, leaf in zip(dims, leaves)]
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
    what = f"vmap({_name(func)}, ..., out_dims={out_dims})"
    leaves = tree_flatten(out_dims)[0]
    if not all(dim is None or isinstance(dim, int) for dim in leaves):
        raise ValueError(
            f"{what}: `out_dims` must be an int, None or a python collection of ints representing where in the outputs "
            "the vmapped dimension should appear."
        )
    one = isinstance(out_dims, tuple) and len(out_dims) == 1 and len(outputs) == 1
    dims = list(out_dims) if one else _broadcast_to_and_flatten(out_dims, spec)
    if dims is None:
        raise ValueError(
            f"{what}(<inputs>): out_dims is not compatible with the structure of `outputs`. out_dims has structure "
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


def _joined(func, slices: list, dim):
    if dim is not None:
        n = slices[0].dim() + 1
        if not -n <= dim < n:
            raise IndexError(f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})")
        return torch.stack(slices, dim)
    first = slices[0]
    if isinstance(first, torch.Tensor) and any(each is not first for each in slices[1:]):
        raise ValueError(
            f"vmap({_name(func)}, ...): `{_name(func)}` can not return a BatchedTensor when out_dim is None"
        )
    return first


# ---- the slices ----------------------------------------------------------------------------------------------
class _Numbers:
    """What a slice may draw: `error`, nothing; `same`, what the first drew; `different`, what comes next."""

    def __init__(self, randomness: str):
        self.randomness = randomness
        self.before = None if randomness == "different" else torch.get_rng_state()

    def start(self) -> None:
        if self.randomness == "same":
            torch.set_rng_state(self.before)

    def end(self) -> None:
        if self.randomness == "error" and not torch.equal(torch.get_rng_state(), self.before):
            torch.set_rng_state(self.before)
            raise RuntimeError(_DRAWN)


def _run(func, in_dims, out_dims, randomness: str, args: tuple, kwargs: dict):
    leaves, spec, dims, n = _inputs(func, in_dims, args)
    if n == 0:
        raise NotImplementedError(f"vmap({_name(func)}): a mapped dimension of size 0 tells nothing about the results")
    shared = [each for each, dim in zip(leaves, dims) if dim is None] + tree_flatten(kwargs)[0]
    if isinstance(func, torch.nn.Module):
        shared += [*func.parameters(), *func.buffers()]
    fixed = [each for each in shared if isinstance(each, torch.Tensor)]
    versions = [each._version for each in fixed]
    numbers, calls, out_spec, places = _Numbers(randomness), [], None, None
    for k in range(n):
        numbers.start()
        taken = [each if dim is None else each.select(dim, k) for each, dim in zip(leaves, dims)]
        result = func(*tree_unflatten(taken, spec), **kwargs)
        numbers.end()
        if [each._version for each in fixed] != versions:
            raise RuntimeError(_WRITTEN)
        outputs, found = tree_flatten(result)
        if places is None:
            out_spec, places = found, _out_dims(func, out_dims, found, outputs)
        elif found != out_spec:
            raise RuntimeError(f"vmap({_name(func)}): the slices return different structures: {out_spec} and {found}")
        _check_outputs(func, outputs, places)
        calls.append(outputs)
    joined = [_joined(func, [outputs[k] for outputs in calls], dim) for k, dim in enumerate(places)]
    return tree_unflatten(joined, out_spec)


def vmap(func, in_dims=0, out_dims=0, randomness: str = "error", *, chunk_size=None):
    """A function that maps `func` over dimension `in_dims` of its arguments and puts its results along `out_dims`.

    `in_dims` and `out_dims` are numbers, or have the structure of the arguments and results, with None for what is not
    mapped; keyword arguments are not. `randomness`: "error", "same" or "different" for all slices.
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    def wrapped(*args, **kwargs):
        return _run(func, in_dims, out_dims, randomness, args, kwargs)

    for name in ("__name__", "__qualname__", "__doc__", "__module__"):
        if hasattr(func, name):
            setattr(wrapped, name, getattr(func, name))
    wrapped.__wrapped__ = func
    return wrapped
