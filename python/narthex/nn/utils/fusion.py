"""A batch norm that no longer learns, made part of the layer before it."""

from copy import deepcopy

from ... import _C
from ..parameter import Parameter

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]


def _parameters(weight, like, bias, before) -> tuple:
    """Parameters of the types, and with the requires_grad, that weight and bias had before."""
    made = Parameter(weight.to(like.dtype), like.requires_grad)
    return made, Parameter(bias.to(before.dtype), before.requires_grad)


def fuse_conv_bn_weights(
    conv_w, conv_b, bn_rm, bn_rv, bn_eps: float, bn_w, bn_b, transpose: bool = False
) -> tuple:  # fmt: skip
    """(weight, bias) of the convolution that does what the convolution and then the batch norm do."""
    before = _C.zeros_like(bn_rm) if conv_b is None else conv_b
    bn_w = _C.ones_like(bn_rm) if bn_w is None else bn_w
    bn_b = _C.zeros_like(bn_rm) if bn_b is None else bn_b
    scale = bn_w * _C.rsqrt(bn_rv + bn_eps)
    sizes = [1] * conv_w.dim()
    sizes[1 if transpose else 0] = -1
    return _parameters(conv_w * scale.reshape(sizes), conv_w, (before - bn_rm) * scale + bn_b, before)


def fuse_linear_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps: float, bn_w, bn_b) -> tuple:
    """(weight, bias) of the linear layer that does what the linear layer and then the batch norm do."""
    before = _C.zeros_like(bn_rm) if linear_b is None else linear_b
    scale = bn_w * _C.rsqrt(bn_rv + bn_eps)
    return _parameters(linear_w * scale.unsqueeze(-1), linear_w, (before - bn_rm) * scale + bn_b, before)


def _checked(layer, bn):
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    return deepcopy(layer)


def _check_statistics(bn) -> None:
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")


def fuse_conv_bn_eval(conv, bn, transpose: bool = False):
    """A copy of the convolution `conv` that also does what `bn` behind it does; both must be in eval mode."""
    fused = _checked(conv, bn)
    _check_statistics(bn)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose
    )
    return fused


def fuse_linear_bn_eval(linear, bn):
    """A copy of the layer `linear` that also does what `bn` behind it does; both must be in eval mode."""
    fused = _checked(linear, bn)
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, "
            f"got linear.out_features={linear.out_features} and bn.num_features={bn.num_features}"
        )
    _check_statistics(bn)
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused
