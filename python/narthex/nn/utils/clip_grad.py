"""Clipping: gradients that are too long become shorter, in place."""

import math
import warnings

from ... import _C
from ...autograd.grad_mode import no_grad


def _as_list(tensors) -> list:
    return [tensors] if isinstance(tensors, _C.TensorBase) else list(tensors)


def _refuse_foreach(function: str, foreach) -> None:
    if foreach:
        raise NotImplementedError(f"{function}: foreach=True is not there yet; leave it out")


def get_total_norm(tensors, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None):
    """The norm of all elements of all tensors as one vector; norm_type is a number > 0 or "inf"."""
    _refuse_foreach("get_total_norm", foreach)
    tensors, p = _as_list(tensors), float(norm_type)
    if p <= 0:
        raise NotImplementedError(f"get_total_norm: norm_type={norm_type} is not there yet; it must be > 0")
    if math.isinf(p) and not hasattr(_C.TensorBase, "amax"):
        raise NotImplementedError(f"get_total_norm: norm_type={norm_type} is not there yet; it needs amax")
    if not tensors:
        return _C.tensor(0.0)
    with no_grad():
        total, device = None, tensors[0].device
        for tensor in tensors:
            size = tensor.detach() if p == 2.0 else tensor.detach().abs()
            part = size.amax() if math.isinf(p) else (size * size if p == 2.0 else size if p == 1.0 else size**p).sum()
            part = part.to(device)
            total = part if total is None else _C.maximum(total, part) if math.isinf(p) else total + part
        if p == 2.0:
            total = total.sqrt()
        elif p != 1.0 and not math.isinf(p):
            total = total ** (1.0 / p)
    if error_if_nonfinite and not math.isfinite(total.item()):
        raise RuntimeError(
            f"The total norm of order {p} for gradients from `parameters` is non-finite, so it cannot be clipped. "
            "To disable this error and scale the gradients by the non-finite norm anyway, set "
            "`error_if_nonfinite=False`"
        )
    return total


def clip_grad_norm_(
    parameters, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
):
    """Scales the gradients of `parameters` so that their total norm is at most `max_norm`; returns the norm before."""
    _refuse_foreach("clip_grad_norm_", foreach)
    grads = [parameter.grad for parameter in _as_list(parameters) if parameter.grad is not None]
    total = get_total_norm(grads, norm_type, error_if_nonfinite)
    with no_grad():
        one = _C.ones_like(total)
        scale = _C.minimum((one * float(max_norm)).div(total + 1e-6), one)
        for grad in grads:
            grad.mul_(scale.to(grad.device))
    return total


def clip_grad_norm(
    parameters, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
):
    """The older name of clip_grad_norm_."""
    warnings.warn("torch.nn.utils.clip_grad_norm is now deprecated in favor of clip_grad_norm_.", stacklevel=2)
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters, clip_value: float, foreach: bool | None = None) -> None:
    """Cuts each element of the gradients of `parameters` to [-clip_value, clip_value]."""
    _refuse_foreach("clip_grad_value_", foreach)
    with no_grad():
        for parameter in _as_list(parameters):
            grad = parameter.grad
            if grad is not None:
                bound = _C.tensor(float(clip_value), dtype=grad.dtype, device=grad.device)
                grad.copy_(_C.maximum(_C.minimum(grad, bound), bound * -1))
