"""torch._functorch.vmap: torch.vmap, and what packages take from beside it. The three steps of a map stand here by
PyTorch's names; a package that puts its own in their place, for trees of tensors that are no tensors, is asked by
every map from then on."""

from __future__ import annotations

import sys
from types import ModuleType

from .. import Tensor, _vmap
from .._C._functorch import (  # noqa: F401
    _add_batch_dim,
    _remove_batch_dim,
    _vmap_decrement_nesting,
    _vmap_increment_nesting,
    is_batchedtensor,
)
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


def _process_batched_inputs(in_dims, args: tuple, func) -> tuple:
    """(how many slices, a dimension or None for each leaf of the arguments, the leaves, their structure)"""
    leaves, spec, dims, n = _vmap._inputs(func, in_dims, args)
    return n, dims, leaves, spec


def _create_batched_inputs(flat_in_dims: list, flat_args: list, vmap_level: int, args_spec):
    """The arguments as slices of the level."""
    leaves = zip(flat_in_dims, flat_args, strict=True)
    taken = [each if dim is None else _add_batch_dim(each, dim, vmap_level) for dim, each in leaves]
    return tree_unflatten(taken, args_spec)


def _unwrap_batched(batched_outputs, out_dims, vmap_level: int, batch_size: int, func):
    """The results as those outside of the level see them."""
    outputs, spec = tree_flatten(batched_outputs)
    dims = _vmap._out_dims(func, out_dims, spec, outputs)
    _vmap._check_outputs(func, outputs, dims)
    name, leaves = _get_name(func), zip(outputs, dims, strict=True)
    return tree_unflatten(
        [_maybe_remove_batch_dim(name, each, vmap_level, batch_size, dim) for each, dim in leaves], spec
    )


_STEPS = {f.__name__: f for f in (_process_batched_inputs, _create_batched_inputs, _unwrap_batched)}


def _run(func, in_dims, out_dims, randomness: str, args: tuple, kwargs: dict, chunk_size):
    """A map by the steps that stand here now."""
    steps = sys.modules[__name__]
    n, dims, leaves, spec = steps._process_batched_inputs(in_dims, args, func)
    if chunk_size is not None and n > chunk_size:
        raise NotImplementedError(f"vmap: chunk_size={chunk_size} of {n} slices, where a package's own steps map")
    level = _vmap_increment_nesting(n, randomness)
    try:
        outputs = func(*steps._create_batched_inputs(dims, leaves, level, spec), **kwargs)
        return steps._unwrap_batched(outputs, out_dims, level, n, func)
    finally:
        _vmap_decrement_nesting()


class _Steps(ModuleType):
    def __setattr__(self, name: str, value) -> None:
        super().__setattr__(name, value)
        if name in _STEPS:
            own = all(getattr(self, each) is step for each, step in _STEPS.items())
            _vmap.run_by_steps = None if own else _run


sys.modules[__name__].__class__ = _Steps
