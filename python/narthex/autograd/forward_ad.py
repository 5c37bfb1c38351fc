"""Forward mode: tensors that carry a tangent, which every operator carries on (src/grad/forward.c).

A tensor made by `make_dual` has a tangent beside its elements while a level is open; results of operators on it have
theirs at once, recorded or not. There is one level; its end takes all tangents away.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import narthex as torch

from .. import _C
from .grad_mode import _set_fwd_grad_enabled as _set_fwd_grad_enabled

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]

_current_level = -1


def enter_dual_level() -> int:
    """Opens a level and returns its number; RuntimeError if one is open."""
    global _current_level
    level = _C._enter_dual_level()
    if level != _current_level + 1:
        raise RuntimeError(
            "Entering a new forward AD level but the current level is not valid. Make sure you did not modified it "
            "directly."
        )
    _current_level = level
    return level


def exit_dual_level(*, level: int | None = None) -> None:
    """Closes the level: all tangents go."""
    global _current_level
    level = _current_level if level is None else level
    if level != _current_level:
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This is not supported."
        )
    _C._exit_dual_level(level=level)
    _current_level = level - 1


def _check(name: str, tensor) -> None:
    if not (tensor.is_floating_point() or tensor.is_complex()):
        raise ValueError(f"Expected {name} to be floating point or complex, but got: {tensor.dtype}")


def make_dual(tensor: torch.Tensor, tangent: torch.Tensor, *, level: int | None = None) -> Any:
    """A view of `tensor` whose tangent is `tangent`: that tensor itself where it lies in memory as `tensor` does."""
    level = _current_level if level is None else level
    if level < 0:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
        )
    _check("primal", tensor)
    _check("tangent", tangent)
    return _C._make_dual(tensor, tangent, level=level)


class UnpackedDualTensor(NamedTuple):
    """What `unpack_dual` returns; `tangent` is None where there is none."""

    primal: torch.Tensor
    tangent: torch.Tensor | None


def unpack_dual(tensor: torch.Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """A view of `tensor` without its tangent, and the tangent; without a level `tensor` itself and None."""
    level = _current_level if level is None else level
    if level < 0:
        return UnpackedDualTensor(tensor, None)
    return UnpackedDualTensor(*_C._unpack_dual(tensor, level=level))


class dual_level:
    """A level for the time of a block, or of a call of a decorated function."""

    def __call__(self, function):
        from functools import wraps

        @wraps(function)
        def within(*args, **kwargs):
            with dual_level():
                return function(*args, **kwargs)

        return within

    def clone(self) -> dual_level:
        """One like it."""
        return type(self)()

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        exit_dual_level()


_is_fwd_grad_enabled = _C._is_fwd_grad_enabled
