"""Functions that modules are made of. The names that are here are the ones whose operators are there."""

import math
import warnings

from .. import _C
from .._absent import absent
from .._shells import shells_of_functional
from ._bags import embedding_bag, limit_norms  # noqa: F401
from ._linear_loss import linear_cross_entropy  # noqa: F401
from ._losses import (  # noqa: F401
    cosine_embedding_loss,
    ctc_loss,
    gaussian_nll_loss,
    gumbel_softmax,
    hinge_embedding_loss,
    margin_ranking_loss,
    multi_margin_loss,
    multilabel_margin_loss,
    multilabel_soft_margin_loss,
    poisson_nll_loss,
    soft_margin_loss,
    triplet_margin_loss,
    triplet_margin_with_distance_loss,
)
from ._multi_head import multi_head_attention_forward  # noqa: F401
from ._noise import (  # noqa: F401
    alpha_dropout,
    dropout1d,
    dropout2d,
    dropout3d,
    feature_alpha_dropout,
    instance_norm,
    local_response_norm,
)
from ._reduction import number as _reduction
from ._window import *  # noqa: F403

_in_nn_written = {
    name: _C.op_function(f"aten::{name}_", f"torch._C._nn.{name}_")
    for name in ("elu", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "mish", "relu6", "silu")
}  # what writes into its first argument
_in_nn = {name.rpartition(".")[2]: f for name, f in _C.functions.items() if name.startswith("torch._C._nn.")}


def relu(input, inplace: bool = False):
    """max(x, 0)"""
    return _C.TensorBase.relu_(input) if inplace else _C.relu(input)


def _maybe_in_place(name: str, inplace: bool):
    """The function `name` of torch._C._nn, or its form that writes into its first argument."""
    return (_in_nn_written if inplace else _in_nn)[name]


def silu(input, inplace: bool = False):
    """x * sigmoid(x)"""
    return _maybe_in_place("silu", inplace)(input)


def mish(input, inplace: bool = False):
    """x * tanh(softplus(x))"""
    return _maybe_in_place("mish", inplace)(input)


def leaky_relu(input, negative_slope: float = 0.01, inplace: bool = False):
    """x, times `negative_slope` where it is negative."""
    return _maybe_in_place("leaky_relu", inplace)(input, negative_slope)


def rrelu(input, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False):
    """x, times a slope where it is negative: drawn between the bounds in training, else their mean."""
    from .. import _older

    return (_older.rrelu_ if inplace else _older.rrelu)(input, lower, upper, training)


def elu(input, alpha: float = 1.0, inplace: bool = False):
    """x, or alpha * (exp(x) - 1) where it is negative."""
    return _maybe_in_place("elu", inplace)(input, alpha)


def selu(input, inplace: bool = False):
    """elu with the constants that keep mean and variance."""
    return _C.selu_(input) if inplace else _C.selu(input)


def hardtanh(input, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False):
    """x between `min_val` and `max_val`."""
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return _maybe_in_place("hardtanh", inplace)(input, min_val, max_val)


def relu6(input, inplace: bool = False):
    """x between 0 and 6."""
    return _maybe_in_place("relu6", inplace)(input)


def hardswish(input, inplace: bool = False):
    """x * relu6(x + 3) / 6"""
    return _maybe_in_place("hardswish", inplace)(input)


def hardsigmoid(input, inplace: bool = False):
    """relu6(x + 3) / 6"""
    return _maybe_in_place("hardsigmoid", inplace)(input)


def celu(input, alpha: float = 1.0, inplace: bool = False):
    """x, or alpha * (exp(x / alpha) - 1) where it is negative."""
    return (celu_ if inplace else _C.celu)(input, alpha)


def threshold(input, threshold: float, value: float, inplace: bool = False):
    """x where it is above `threshold`, else `value`."""
    return (threshold_ if inplace else _C.threshold)(input, threshold, value)


def bilinear(input1, input2, weight, bias=None):
    """`input1 @ weight[k] @ input2` for each k, plus `bias`."""
    if input1.dim() != input2.dim() or input1.shape[:-1] != input2.shape[:-1]:
        raise RuntimeError(
            f"bilinear(): input dimensions do not match: got {input1.dim()} and {input2.dim()}"
            if input1.dim() != input2.dim()
            else f"bilinear(): input batch dimensions do not match: got {input1.shape} and {input2.shape}"
        )
    for k, given in enumerate((input1, input2), 1):
        if given.size(-1) != weight.size(k):
            raise RuntimeError(
                f"bilinear(): input{k} size does not match weight size: got {given.size(-1)} but expected "
                f"{weight.size(k)}"
            )
    if input1.dtype in (_C.float16, _C.bfloat16) and input1.dtype == input2.dtype == weight.dtype:  # rounded once
        found = bilinear(input1.float(), input2.float(), weight.float(), bias if bias is None else bias.float())
        return found.to(input1.dtype)
    rows, n = input1.shape[:-1], weight.size(0)
    left = input1.reshape(-1, input1.size(-1)) @ weight.permute(1, 0, 2).reshape(weight.size(1), -1)
    result = (left.view(-1, n, weight.size(2)) * input2.reshape(-1, 1, input2.size(-1))).sum(-1).view(*rows, n)
    return result if bias is None else result + bias


def softsign(input):
    """x / (1 + |x|)"""
    return input / (input.abs() + 1)


def tanhshrink(input):
    """x - tanh(x)"""
    return input - input.tanh()


def tanh(input):
    """`input.tanh()`"""
    return input.tanh()


def sigmoid(input):
    """`input.sigmoid()`"""
    return input.sigmoid()


def _usual_dim(name: str, n_dims: int) -> int:
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
        stacklevel=3,
    )
    return 0 if n_dims in (0, 1, 3) else 1


def _shortcut(operator: str, n: int):
    """For a function whose first `n` arguments, and what it takes by name, mean what they mean to the operator."""
    return lambda function: _C.shortcut(function, f"aten::{operator}", n)


@_shortcut("softmax.int", 2)
def softmax(input, dim=None, _stacklevel: int = 3, dtype=None):
    """exp(x) / sum(exp(x)) along `dim`."""
    dim = _usual_dim("softmax", input.dim()) if dim is None else dim
    return input.softmax(dim) if dtype is None else input.softmax(dim, dtype=dtype)


def softmin(input, dim=None, _stacklevel: int = 3, dtype=None):
    """softmax(-x) along `dim`."""
    dim = _usual_dim("softmin", input.dim()) if dim is None else dim
    return (-input).softmax(dim) if dtype is None else (-input).softmax(dim, dtype=dtype)


@_shortcut("log_softmax.int", 2)
def log_softmax(input, dim=None, _stacklevel: int = 3, dtype=None):
    """log(softmax(x)) along `dim`, computed at once."""
    dim = _usual_dim("log_softmax", input.dim()) if dim is None else dim
    return input.log_softmax(dim) if dtype is None else input.log_softmax(dim, dtype=dtype)


def dropout(input, p: float = 0.5, training: bool = True, inplace: bool = False):
    """Zeros elements with probability `p` and scales the others by 1 / (1 - p), when training."""
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    return _C.dropout_(input, p, training) if inplace else _C.dropout(input, p, training)


def embedding(
    input, weight, padding_idx=None, max_norm=None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
    sparse: bool = False,
):  # fmt: skip
    """The rows of `weight` at the integers in `input`."""
    if padding_idx is None:
        padding_idx = -1
    elif not -weight.size(0) <= padding_idx < weight.size(0):
        raise AssertionError("Padding_idx must be within num_embeddings")
    elif padding_idx < 0:
        padding_idx += weight.size(0)
    if max_norm is not None:
        limit_norms(weight, input, max_norm, norm_type)
    if sparse and weight.requires_grad and _C.is_grad_enabled():
        if scale_grad_by_freq:
            raise RuntimeError("embedding_backward: scale_grad_by_freq not supported with sparse gradients")
        from ..sparse._gradients import RowsOf

        return RowsOf.apply(weight, input, padding_idx)
    return _C.embedding(weight, input, padding_idx, scale_grad_by_freq)


def layer_norm(input, normalized_shape, weight=None, bias=None, eps: float = 1e-5):
    """Mean 0 and variance 1 over the last dimensions, then `weight` and `bias`."""
    return _C.layer_norm(input, normalized_shape, weight, bias, eps)


def rms_norm(input, normalized_shape, weight=None, eps: float | None = None):
    """x over the root of the mean of its squares in the last dimensions, then times `weight`."""
    return _C.rms_norm(input, normalized_shape, weight, eps)


def _check_groups(input, num_groups: int) -> None:
    if input.dim() < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {input.dim()}")
    sizes = [input.size(0) * input.size(1) // num_groups, num_groups, *input.shape[2:]]
    if sizes[0] * math.prod(sizes[2:]) == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {sizes}")


def group_norm(input, num_groups: int, weight=None, bias=None, eps: float = 1e-5):
    """Mean 0 and variance 1 in each group of channels, then `weight` and `bias` of each channel."""
    if input.numel() < 2 * num_groups or num_groups == 0:
        _check_groups(input, num_groups)
    return _C.group_norm(input, num_groups, weight, bias, eps)


def batch_norm(
    input, running_mean, running_var, weight=None, bias=None, training: bool = False, momentum: float = 0.1,
    eps: float = 1e-5,
):  # fmt: skip
    """Mean 0 and variance 1 in each channel: of the batch if `training`, else by the running statistics."""
    if training:
        count = input.size(0)
        for size in input.shape[2:]:
            count *= size
        if count == 1:
            raise ValueError(f"Expected more than 1 value per channel when training, got input size {input.size()}")
    return _C.batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, True)


def cross_entropy(
    input, target, weight=None, size_average=None, ignore_index: int = -100, reduce=None, reduction: str = "mean",
    label_smoothing: float = 0.0,
):  # fmt: skip
    """-log(softmax(input)) at the classes `target`; `input` is (N, C), (C) or (N, C, ...)."""
    number = _reduction(reduction, size_average, reduce)
    return _in_nn["cross_entropy_loss"](input, target, weight, number, ignore_index, label_smoothing)


def nll_loss(
    input, target, weight=None, size_average=None, ignore_index: int = -100, reduce=None, reduction: str = "mean"
):
    """-input at the classes `target`; `input` holds logarithms of probabilities."""
    number = _reduction(reduction, size_average, reduce)
    return _in_nn["nll_loss_nd"](input, target, weight, number, ignore_index)


def _warn_of_sizes(input, target) -> None:
    if target.shape != input.shape:
        warnings.warn(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}). "
            "This will likely lead to incorrect results due to broadcasting. "
            "Please ensure they have the same size.",
            stacklevel=3,
        )


def _weighted_loss(loss, input, target, weight, number: int, mean_of_weights: bool, *options):
    """`loss` between two tensors; with `weight` its elements times that, and their mean over the sum of the weights."""
    if weight is None:
        return loss(input, target, number, *options)
    if weight.shape != input.shape:
        raise ValueError("Weights and input must have the same size.")
    weighted = loss(input, target, 0, *options) * weight
    if number == 0:
        return weighted
    if number == 1 and not mean_of_weights:
        return weighted.mean()
    return weighted.sum() if number == 2 else weighted.sum() / weight.sum()


def mse_loss(input, target, size_average=None, reduce=None, reduction: str = "mean", weight=None):
    """(input - target) ** 2"""
    _warn_of_sizes(input, target)
    number = _reduction(reduction, size_average, reduce)
    return _weighted_loss(_in_nn["mse_loss"], input, target, weight, number, True)


def l1_loss(input, target, size_average=None, reduce=None, reduction: str = "mean", weight=None):
    """|input - target|"""
    _warn_of_sizes(input, target)
    number = _reduction(reduction, size_average, reduce)
    return _weighted_loss(_in_nn["l1_loss"], input, target, weight, number, True)


def smooth_l1_loss(input, target, size_average=None, reduce=None, reduction: str = "mean", beta: float = 1.0):
    """A parabola where |input - target| is below `beta`, lines beyond."""
    _warn_of_sizes(input, target)
    return _in_nn["smooth_l1_loss"](input, target, _reduction(reduction, size_average, reduce), beta)


def huber_loss(input, target, reduction: str = "mean", delta: float = 1.0, weight=None):
    """A parabola where |input - target| is below `delta`, lines of slope `delta` beyond."""
    _warn_of_sizes(input, target)
    number = _reduction(reduction, None, None)
    return _weighted_loss(_in_nn["huber_loss"], input, target, weight, number, False, delta)


def kl_div(input, target, size_average=None, reduce=None, reduction: str = "mean", log_target: bool = False):
    """target * (log(target) - input); `reduction` may also be "batchmean"."""
    old = size_average is not None or reduce is not None
    if reduction == "mean" and not old:
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size."
            "'batchmean' divides only by the batch size, and aligns with the KL div math definition."
            "'mean' will be changed to behave the same as 'batchmean' in the next major release.",
            stacklevel=2,
        )
    of_batch = reduction == "batchmean" and not old
    number = _reduction("sum" if of_batch else reduction, size_average, reduce)
    loss = _C.kl_div(input, target, number, log_target=log_target)
    return loss / input.shape[0] if of_batch and input.dim() != 0 else loss


def binary_cross_entropy(input, target, weight=None, size_average=None, reduce=None, reduction: str = "mean"):
    """Cross entropy between the probabilities `input` and `target`."""
    number = _reduction(reduction, size_average, reduce)
    if target.shape != input.shape:
        raise ValueError(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}) is deprecated. "
            "Please ensure they have the same size."
        )
    return _in_nn["binary_cross_entropy"](input, target, weight, number)


def glu(input, dim: int = -1):
    """The first half along `dim` times the sigmoid of the second."""
    if input.dim() == 0:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    return _in_nn["glu"](input, dim)


def _wrapped_pad(input, pad):
    """`input` with what stands at its other side around it: along each padded dimension the parts an index names."""
    n_dims = len(pad) // 2
    sizes = input.shape[input.dim() - n_dims :]
    if min(size + pad[2 * k] + pad[2 * k + 1] for k, size in enumerate(reversed(sizes))) < 0:
        raise RuntimeError("Negative padding value is resulting in an empty dimension")
    for k in range(n_dims):
        dim, before, behind = input.dim() - 1 - k, pad[2 * k], pad[2 * k + 1]
        n = input.shape[dim]
        if before > n or behind > n:
            raise RuntimeError("Padding value causes wrapping around more than once.")
        if before == 0 and behind == 0:
            continue
        if n < 4096:
            input = input.index_select(dim, _wrapped(n, before, behind, -before, n + behind, input.device))
            continue
        first, last = max(-before, 0), n - max(-behind, 0)  # what stays is long: the edges alone go by an index
        edges = [(-before, 0), (n, n + behind)]
        left, right = (
            [input.index_select(dim, _wrapped(n, before, behind, *edge, input.device))] if edge[0] < edge[1] else []
            for edge in edges
        )
        input = _C.cat([*left, input.narrow(dim, first, last - first), *right], dim)
    return input


def _wrapped(n: int, before: int, behind: int, begin: int, end: int, device):
    """Which of n elements stand at places begin to end, counted from the first; what is cut off does not come round."""
    start, kept = max(-before, 0), n + min(before, 0) + min(behind, 0)
    if kept <= 0:
        raise RuntimeError(f"Padding ({before}, {behind}) leaves nothing of {n} elements that could come round.")
    return (_C.arange(begin, end, device=device) - start) % kept + start


_EDGES = {
    mode: [_in_nn[f"{name}_pad{n}d"] for n in (1, 2, 3)]
    for mode, name in (("reflect", "reflection"), ("replicate", "replication"))
}


def pad(input, pad, mode: str = "constant", value: float | None = None):
    """Elements around `input`: pad[0] before and pad[1] behind the last dimension, then the one before it.

    They are `value`; with mode "reflect", "replicate" or "circular" those of `input`: mirrored at the border, the
    border's, those of the other side. Negative numbers cut off.
    """
    if len(pad) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(pad) > 2 * input.dim():
        raise RuntimeError(
            "Padding length should be less than or equal to two times the input dimension but got padding length "
            f"{len(pad)} and input of dimension {input.dim()}"
        )
    if mode == "constant":
        return _C.constant_pad_nd(input, pad, 0 if value is None else value)
    if value is not None and value != 0:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    n_dims = len(pad) // 2
    if n_dims not in (1, 2, 3) or input.dim() not in (n_dims + 1, n_dims + 2):
        raise NotImplementedError("Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now")
    return _wrapped_pad(input, pad) if mode == "circular" else _EDGES[mode][n_dims - 1](input, pad)


def normalize(input, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out=None):
    """x over its norm number `p` along `dim`, which counts as `eps` at least."""
    lengths = input.norm(p, dim, keepdim=True).clamp_min(eps).expand_as(input)
    return input / lengths if out is None else _C.functions["torch.div"](input, lengths, out=out)


def binary_cross_entropy_with_logits(
    input, target, weight=None, size_average=None, reduce=None, reduction: str = "mean", pos_weight=None
):
    """Cross entropy between sigmoid(input) and the probabilities `target`."""
    number = _reduction(reduction, size_average, reduce)
    if target.shape != input.shape:
        raise ValueError(f"Target size ({target.shape}) must be the same as input size ({input.shape})")
    return _C.binary_cross_entropy_with_logits(input, target, weight, pos_weight, number)


for _name in ("gelu", "linear", "one_hot", "scaled_dot_product_attention", "softplus"):
    globals()[_name] = _in_nn[_name]  # the operator itself, as in PyTorch
for _name in ("elu", "hardtanh", "leaky_relu"):
    globals()[_name + "_"] = _in_nn_written[_name]
celu_ = _C.op_function("aten::celu_", "torch.celu_")
threshold_ = _C.op_function("aten::threshold_", "torch.threshold_")
relu_, selu_ = _C.TensorBase.relu_, _C.selu_
logsigmoid = _in_nn["log_sigmoid"]
softshrink, hardshrink, pairwise_distance = _in_nn["softshrink"], _C.hardshrink, _C.pairwise_distance
cosine_similarity, prelu = _C.cosine_similarity, _C.prelu
pixel_shuffle, pixel_unshuffle = _C.pixel_shuffle, _C.pixel_unshuffle
shells_of_functional(globals())


_ELSEWHERE = {"conv_tbc": "_older", "grouped_mm": "nn._grouped", "pdist": "_composed", "rrelu_": "_older"}
for _name in ("handle_torch_function", "has_torch_function", "has_torch_function_unary", "has_torch_function_variadic"):
    _ELSEWHERE[_name] = "overrides"
for _name in ("BroadcastingList1", "BroadcastingList2", "BroadcastingList3", "assert_int_or_pair", "boolean_dispatch"):
    _ELSEWHERE[_name] = "_jit_internal"


def __getattr__(name: str):
    if name in _ELSEWHERE:
        from importlib import import_module

        value = globals()[name] = getattr(import_module(f"narthex.{_ELSEWHERE[name]}"), name)
        return value
    raise absent("torch.nn.functional", name)
