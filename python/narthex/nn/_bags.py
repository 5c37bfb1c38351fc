"""nn.functional.embedding_bag, and max_norm."""

import warnings

from .. import _C
from .._bags import MODES
from .._bags import embedding_bag as over_bags
from ..autograd.grad_mode import no_grad


def limit_norms(weight, indices, max_norm: float, norm_type: float) -> None:
    """Scales, in place, those of the rows `indices` whose norm is above `max_norm`."""
    with no_grad():
        rows = indices.reshape(-1)  # one that is named twice is written twice, alike
        values = weight.index_select(0, rows)
        norms = values.norm(norm_type, 1, keepdim=True)
        scales = _C.where(norms > max_norm, max_norm / (norms + 1e-7), _C.ones_like(norms))
        weight.index_copy_(0, rows, values * scales)


def _flat(input, offsets, weights) -> tuple:
    """(indices, where each bag begins, weights)."""
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length "
                f"sequences. However, found offsets of type <class 'torch.{type(offsets).__name__}'>"
            )
        n, length = input.shape
        offsets = _C.arange(n, device=input.device) * length
        return input.reshape(-1), offsets, None if weights is None else weights.reshape(-1)
    if input.dim() != 1:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}")
    if offsets is None:
        raise ValueError("offsets has to be a 1D Tensor but got None")
    if offsets.dim() != 1:
        raise ValueError("offsets has to be a 1D Tensor")
    return input, offsets, weights


def embedding_bag(
    input, weight, offsets=None, max_norm: float | None = None, norm_type: float = 2,
    scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, per_sample_weights=None,
    include_last_offset: bool = False, padding_idx: int | None = None,
):  # fmt: skip
    """For each bag of numbers the sum, mean or maximum of the rows of `weight` at them. A bag is a row of `input`, or
    what lies between two of `offsets`. Rows `padding_idx` do not count.
    """
    if weight.dtype is _C.int64 and input.is_floating_point():
        warnings.warn(
            "Argument order of nn.functional.embedding_bag was changed. Usage `embedding_bag(weight, input, ...)` is "
            "deprecated, and should now be `embedding_bag(input, weight, ...)`.",
            stacklevel=2,
        )
        weight, input = input, weight
    if per_sample_weights is not None and input.size() != per_sample_weights.size():
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({per_sample_weights.shape}) is not None, then it must have the "
            f"same shape as the input ({input.shape})"
        )
    if weight.dim() != 2:
        raise ValueError(f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.dim()}")
    indices, offsets, weights = _flat(input, offsets, per_sample_weights)
    if mode not in MODES:
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and (scale_grad_by_freq or sparse):
        what = "scaling the gradient by the frequency" if scale_grad_by_freq else "sparse weights"
        raise ValueError(f"max mode does not support {what}")
    if max_norm is not None:
        limit_norms(weight, indices, max_norm, norm_type)
    if weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' "
            f"(got mode='{mode}'). Please open a feature request on GitHub."
        )
    return over_bags(
        weight, indices, offsets, scale_grad_by_freq, MODES.index(mode), sparse, weights, include_last_offset,
        padding_idx,
    )[0]  # fmt: skip
