"""torch._C._functorch: the levels of torch.vmap by PyTorch's names, for those who open them by hand or ask whose slice
a tensor is. A level is its depth here, 1 the outermost one."""

from __future__ import annotations

from .. import _C
from .._vmap import RANDOMNESS


def is_batchedtensor(tensor) -> bool:
    """Whether the tensor is a slice of what torch.vmap maps over."""
    return _C._batch_levels(tensor) != 0


is_functorch_wrapped_tensor = is_batchedtensor


def is_gradtrackingtensor(tensor) -> bool:
    """False: torch.func's derivatives are taken on ordinary tensors."""
    return False


is_functionaltensor = is_legacy_batchedtensor = is_gradtrackingtensor


def maybe_get_level(tensor) -> int | None:
    """The innermost level whose slice the tensor is, -1 where it has outlived it; None of what is no slice."""
    levels, innermost = _C._batch_levels(tensor), None
    for depth, (number, *_) in enumerate(_C._batch_open(), 1):
        if levels >> number & 1:
            innermost = depth
    return -1 if levels and innermost is None else innermost


def maybe_get_bdim(tensor) -> int:
    """The dimension of get_unwrapped along which the slices lie, -1 of what is no slice."""
    return 0 if is_batchedtensor(tensor) else -1


def get_unwrapped(tensor):
    """All slices of the innermost level, along dimension 0; a tensor that is no slice itself."""
    level = maybe_get_level(tensor)
    if level is None:
        return tensor
    return _C._batch_whole(tensor) if level < 0 else _C._batch_give(tensor, 0, _number(level))


def _number(level: int) -> int:
    opened = _C._batch_open()
    if not 1 <= level <= len(opened):
        raise RuntimeError(f"vmap: level {level} is not open, {len(opened)} are")
    return opened[level - 1][0]


def _vmap_increment_nesting(batch_size: int, randomness: str) -> int:
    """Opens a level of so many slices."""
    _C._batch_enter(batch_size, RANDOMNESS.index(randomness))
    return len(_C._batch_open())


def _vmap_decrement_nesting() -> int:
    """The innermost level ends; which one it was."""
    depth = len(_C._batch_open())
    if depth == 0:
        raise RuntimeError("vmap: no level is open")
    _C._batch_leave()
    return depth


def _add_batch_dim(tensor, in_dim: int, level: int):
    """One slice of the tensor along `in_dim`, for all of them."""
    return _C._batch_take(tensor, in_dim % tensor.dim(), _number(level))


def _remove_batch_dim(tensor, level: int, batch_size: int, out_dim: int):
    """All slices of the level, along `out_dim`."""
    return _C._batch_give(tensor, out_dim % (tensor.dim() + 1), _number(level))


def peek_interpreter_stack() -> None:
    """None: what a call inside of a level does is decided by its key, no interpreter stands between."""


def _refuse(name: str):
    def refuse(*args, **kwargs):
        raise NotImplementedError(f"{name}: torch.func's derivatives have no levels of wrapped tensors")

    return refuse


for _name in ("_wrap_for_grad", "_unwrap_for_grad", "_grad_increment_nesting", "_grad_decrement_nesting"):
    globals()[_name] = _refuse(_name)
