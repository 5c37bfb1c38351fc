"""torch._vmap_internals: the vmap of before torch.func, which packages of optimizers and of Jacobians still call."""

import warnings
from functools import wraps

from ._vmap import vmap as _map


def _vmap(func, in_dims=0, out_dims=0, allow_none_pass_through: bool = False):
    """torch.vmap, whose function may return None in a tensor's place where `allow_none_pass_through` says so."""
    if not allow_none_pass_through:
        return _map(func, in_dims, out_dims)

    @wraps(func)
    def mapped(*args):
        whole: list = []  # [what func returned, whether it was one result]

        def tensors(*slices):
            results = func(*slices)
            whole[:] = [results if isinstance(results, tuple) else (results,), not isinstance(results, tuple)]
            return tuple(each for each in whole[0] if each is not None)

        found = iter(_map(tensors, in_dims)(*args))
        dims = out_dims if isinstance(out_dims, tuple) else (out_dims,) * len(whole[0])
        given = tuple(
            None if each is None else next(found).movedim(0, dim) for each, dim in zip(whole[0], dims, strict=True)
        )
        return given[0] if whole[1] else given

    return mapped


def vmap(func, in_dims=0, out_dims=0):
    """Deprecated: torch.vmap."""
    text = "Please use `torch.vmap` instead of `torch._vmap_internals.vmap`."
    warnings.warn(text, FutureWarning, stacklevel=2)
    return _map(func, in_dims, out_dims)
