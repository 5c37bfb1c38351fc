"""Clipping: gradients that are too long become shorter, in place."""

import math
import warnings

from ... import _C
from ...autograd.grad_mode import no_grad


def _as_list(tensors) -> list:
    return [tensors] if isinstance(tensors, _C.TensorBase) else list(tensors)


def get_total_norm(tensors, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None):
    """The norm of all elements of all tensors as one vector. `foreach` changes nothing: they are one call anyway."""
    tensors, p = _as_list(tensors), float(norm_type)
    if math.isinf(p) and not hasattr(_C.TensorBase, "amax"):
        raise NotImplementedError(f"get_total_norm: norm_type={norm_type} is not there yet; it needs amax")
    if not tensors:
        return _C.tensor(0.0)
    with no_grad():
        norms = [tensor.abs().amax() for tensor in tensors] if math.isinf(p) else _C._foreach_norm(tensors, p)
        if len({tensor.device for tensor in tensors}) > 1:
            norms = [norm.to(tensors[0].device) for norm in norms]
        norms = _C.stack(norms)
        total = norms.amax() if math.isinf(p) else _C._foreach_norm([norms], p)[0]
    if error_if_nonfinite and not math.isfinite(total.item()):
        raise RuntimeError(
            f"The total norm of order {p} for gradients from `parameters` is non-finite, so it cannot be clipped. "
            "To disable this error and scale the gradients by the non-finite norm anyway, set "
            "`error_if_nonfinite=False`"
        )
    return total


def clip_grads_with_norm_(parameters, max_norm: float, total_norm, foreach: bool | None = None) -> None:
    """Scales the gradients of `parameters`, whose total norm is `total_norm`, so that it is at most `max_norm`."""
    _scale([parameter.grad for parameter in _as_list(parameters) if parameter.grad is not None], max_norm, total_norm)


def _scale(grads: list, max_norm: float, total) -> None:
    if not grads:
        return
    with no_grad():
        one = _C.ones_like(total)
        scale = _C.minimum((one * float(max_norm)).div(total + 1e-6), one)
        places = {grad.device for grad in grads}
        for device in places:
            here = grads if len(places) == 1 else [grad for grad in grads if grad.device == device]
            _C._foreach_mul_(here, scale.to(device))


def clip_grad_norm_(
    parameters, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
):
    """Scales the gradients of `parameters` so that their total norm is at most `max_norm`; returns the norm before."""
    grads = [parameter.grad for parameter in _as_list(parameters) if parameter.grad is not None]
    total = get_total_norm(grads, norm_type, error_if_nonfinite)
    _scale(grads, max_norm, total)
    return total


def clip_grad_norm(
    parameters, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
):
    """The older name of clip_grad_norm_."""
    warnings.warn("torch.nn.utils.clip_grad_norm is now deprecated in favor of clip_grad_norm_.", stacklevel=2)
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters, clip_value: float, foreach: bool | None = None) -> None:
    """Cuts each element of the gradients of `parameters` to [-clip_value, clip_value]."""
    with no_grad():
        for parameter in _as_list(parameters):
            grad = parameter.grad
            if grad is not None:
                bound = _C.tensor(float(clip_value), dtype=grad.dtype, device=grad.device)
                grad.copy_(_C.maximum(_C.minimum(grad, bound), bound * -1))
