"""Losses with margins and of distributions; torch.nn.functional shows them."""

import math
import warnings

from .. import _C
from ..autograd.grad_mode import no_grad
from ._reduction import number as reduction_number

_in_nn = {
    name: _C.functions[f"torch._C._nn.{name}"]
    for name in ("log_sigmoid", "multi_margin_loss", "multilabel_margin_loss", "soft_margin_loss")
}


def _reduced(loss, reduction: str):
    if reduction == "none":
        return loss
    return loss.mean() if reduction == "mean" else loss.sum()


def soft_margin_loss(input, target, size_average=None, reduce=None, reduction: str = "mean"):
    """log(1 + exp(-target * input)), `target` being 1 or -1."""
    return _in_nn["soft_margin_loss"](input, target, reduction_number(reduction, size_average, reduce))


def margin_ranking_loss(
    input1, input2, target, margin: float = 0, size_average=None, reduce=None, reduction: str = "mean"
):
    """max(0, -target * (input1 - input2) + margin)"""
    number = reduction_number(reduction, size_average, reduce)
    if input1.dim() != input2.dim() or input1.dim() != target.dim():
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {input1.size()}, input2: {input2.size()}, target: {target.size()} "
        )
    return _C.margin_ranking_loss(input1, input2, target, margin, number)


def multi_margin_loss(
    input, target, p: int = 1, margin: float = 1.0, weight=None, size_average=None, reduce=None,
    reduction: str = "mean",
):  # fmt: skip
    """The mean over other classes of max(0, margin - input[target] + input) ** p."""
    number = reduction_number(reduction, size_average, reduce)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.dim() != 1:
        raise ValueError("weight must be one-dimensional")
    return _in_nn["multi_margin_loss"](input, target, p, margin, weight, number)


def multilabel_margin_loss(input, target, size_average=None, reduce=None, reduction: str = "mean"):
    """Margins between each class listed in `target`, up to the first -1, and each class that is not."""
    number = reduction_number(reduction, size_average, reduce)
    return _in_nn["multilabel_margin_loss"](input, target, number)


def multilabel_soft_margin_loss(input, target, weight=None, size_average=None, reduce=None, reduction: str = "mean"):
    """Cross entropy between sigmoid(input) and `target`, its mean over classes."""
    reduction = ("none", "mean", "sum")[reduction_number(reduction, size_average, reduce)]
    log_sigmoid = _in_nn["log_sigmoid"]
    loss = -(target * log_sigmoid(input) + (1 - target) * log_sigmoid(-input))
    loss = loss if weight is None else loss * weight
    return _reduced(loss.sum(dim=-1) / input.size(-1), reduction)


def hinge_embedding_loss(input, target, margin: float = 1.0, size_average=None, reduce=None, reduction: str = "mean"):
    """`input` where target is 1, max(0, margin - input) where it is -1."""
    number = reduction_number(reduction, size_average, reduce)
    return _C.hinge_embedding_loss(input, target, margin, number)


def cosine_embedding_loss(
    input1, input2, target, margin: float = 0, size_average=None, reduce=None, reduction: str = "mean"
):
    """1 - cosine where target is 1, max(0, cosine - margin) where it is -1."""
    number = reduction_number(reduction, size_average, reduce)
    return _C.cosine_embedding_loss(input1, input2, target, margin, number)


def triplet_margin_loss(
    anchor, positive, negative, margin: float = 1.0, p: float = 2, eps: float = 1e-06, swap: bool = False,
    size_average=None, reduce=None, reduction: str = "mean",
):  # fmt: skip
    """max(0, distance to positive - distance to negative + margin)"""
    number = reduction_number(reduction, size_average, reduce)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    return _C.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, number)


def triplet_margin_with_distance_loss(
    anchor, positive, negative, *, distance_function=None, margin: float = 1.0, swap: bool = False,
    reduction: str = "mean",
):  # fmt: skip
    """triplet_margin_loss with any function for the distance; None: pairwise_distance."""
    reduction_number(reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if anchor.dim() != positive.dim() or anchor.dim() != negative.dim():
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
            f"anchor {anchor.dim()}D, positive {positive.dim()}D, and negative {negative.dim()}D inputs"
        )
    distance = _C.pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = _C.minimum(far, distance(positive, negative))
    return _reduced((margin + near - far).clamp_min(0), reduction)


def poisson_nll_loss(
    input, target, log_input: bool = True, full: bool = False, size_average=None, eps: float = 1e-08, reduce=None,
    reduction: str = "mean",
):  # fmt: skip
    """-log of a Poisson distribution's probability of `target`; `input` is its mean, or the logarithm of that."""
    number = reduction_number(reduction, size_average, reduce)
    return _C.poisson_nll_loss(input, target, log_input, full, eps, number)


def gaussian_nll_loss(input, target, var, full: bool = False, eps: float = 1e-06, reduction: str = "mean"):
    """-log of a normal distribution's density at `target`, of mean `input` and variance `var`."""
    if isinstance(var, float):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = var * _C.ones_like(input)
    elif (var < 0).any():
        raise ValueError("var has negative entry/entries")
    if var.shape != input.shape:
        if input.shape[:-1] == var.shape:
            var = var.unsqueeze(-1)
        elif input.dim() != var.dim() or sum(m for n, m in zip(input.shape, var.shape, strict=True) if n != m) != 1:
            raise ValueError("var is of incorrect size")
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(reduction + " is not valid")
    var = var.clone()
    with no_grad():
        var.clamp_(min=eps)
    loss = 0.5 * (var.log() + (input - target) ** 2 / var)
    return _reduced(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction)


def ctc_loss(
    log_probs, targets, input_lengths, target_lengths, blank: int = 0, reduction: str = "mean",
    zero_infinity: bool = False,
):  # fmt: skip
    """-log of the probability of `targets` (N, S), or one behind the other, summed over all alignments with the steps
    (T, N, C) of `log_probs`."""
    for name, given in (("input_lengths", input_lengths), ("target_lengths", target_lengths)):
        if isinstance(given, _C.TensorBase) and (given.dtype.is_floating_point or given.dtype.is_complex):
            raise RuntimeError(f"{name} must be integral")
    lengths = [n.tolist() if isinstance(n, _C.TensorBase) else list(n) for n in (input_lengths, target_lengths)]
    lengths = [n if isinstance(n, list) else [n] for n in lengths]
    reduction_number(reduction)
    batched = log_probs.dim() == 3
    if not batched:
        log_probs, targets = log_probs.unsqueeze(1), targets.unsqueeze(0) if targets.dim() == 1 else targets
    dtype, device = log_probs.dtype, log_probs.device
    loss = _C._ctc_loss(log_probs, targets.to(_C.int64), *lengths, blank, zero_infinity)[0]
    if zero_infinity:
        loss = loss.masked_fill(loss == math.inf, 0)
    if reduction == "mean":
        return (loss / _C.tensor(lengths[1], dtype=dtype, device=device).clamp_min(1)).mean()
    return loss.sum() if reduction == "sum" else loss if batched else loss.squeeze(0)


def gumbel_softmax(logits, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1):
    """softmax of logits with Gumbel noise, over `tau`; with `hard` one-hot, with the gradient of the soft one."""
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=2)
    noise = -_C.empty_like(logits, memory_format=_C.contiguous_format).exponential_().log()
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    at = soft.max(dim, keepdim=True)[1]
    return _C.zeros_like(logits, memory_format=_C.contiguous_format).scatter_(dim, at, 1.0) - soft.detach() + soft
