"""torch._functorch.vmap: torch.vmap, and what packages take from beside it."""

from __future__ import annotations

from .. import Tensor
from .._C._functorch import _add_batch_dim, _remove_batch_dim, is_batchedtensor  # noqa: F401
from .._vmap import vmap  # noqa: F401
from ..utils._pytree import _broadcast_to_and_flatten, tree_flatten, tree_unflatten  # noqa: F401

__all__ = ["Tensor", "tree_flatten", "tree_unflatten", "vmap"]


def _get_name(func) -> str:
    """What messages call a function."""
    return getattr(func, "__name__", None) or repr(func)


def _maybe_remove_batch_dim(name: str, batched_output, vmap_level: int, batch_size: int, out_dim):
    """All slices of the level, along `out_dim`; None: what is none."""
    if out_dim is None:
        return batched_output
    return _remove_batch_dim(batched_output, vmap_level, batch_size, out_dim)
