"""Cross entropy of a linear layer's results, without the layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .. import _C


def _is_ratio(method: str) -> bool:
    name, _, number = method.partition(":")
    return name == "aspect_ratio" and number.isdigit() and int(number) > 0


@dataclass(frozen=True)
class LinearCrossEntropyOptions:
    """How the work is divided. Checked and kept; the numbers are those of `options=None`, which are the same."""

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None

    def __post_init__(self) -> None:
        size, method = self.batch_chunk_size, self.chunking_method
        if size is not None and not (isinstance(size, int) and size > 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {size!r}")
        if method not in (None, "auto") and not _is_ratio(method):
            raise ValueError(f"invalid chunking_method: {method!r}")
        if self.acc_policy not in ("accurate", "balanced", "compact", "auto"):
            raise ValueError(f"invalid acc_policy: {self.acc_policy!r}")
        if self.acc_dtype not in (None, _C.float16, _C.bfloat16, _C.float32, _C.float64):
            raise ValueError(
                "acc_dtype must be one of {None, torch.float16, torch.bfloat16, torch.float32, torch.float64}, got "
                f"{self.acc_dtype}. Pass acc_dtype=None to let the op pick automatically."
            )


def _check(input, weight, bias) -> None:
    if weight.dim() < 2:
        raise RuntimeError(f"expected linear_weight with dimensionality at least 2, got {weight.dim()}")
    if input.dim() not in (1, 2):
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.dim()}")
    if input.shape[-1] != weight.shape[-1]:
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), got "
            f"{input.shape[-1]} and {weight.shape[-1]}, respectively"
        )
    if weight.dim() > 2 and input.dim() == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(weight.shape)} requires batched input, "
            f"(N, {weight.shape[-1]}), got unbatched input with shape {tuple(input.shape)}"
        )
    if bias is not None and bias.shape != weight.shape[:-1]:
        raise RuntimeError(f"expected linear_bias shape {tuple(weight.shape[:-1])}, got {tuple(bias.shape)}")


def linear_cross_entropy(
    input,
    linear_weight,
    target,
    *,
    linear_bias=None,
    weight=None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: LinearCrossEntropyOptions | None = None,
):
    """cross_entropy(linear(input, linear_weight, linear_bias), target); linear_weight is (C, ..., in_features)."""
    from .functional import cross_entropy, linear

    _check(input, linear_weight, linear_bias)
    if target.is_floating_point() and ignore_index is not None:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    shape = linear_weight.shape[:-1]
    flat_bias = None if linear_bias is None else linear_bias.reshape(-1)
    logits = linear(input, linear_weight.reshape(-1, linear_weight.shape[-1]), flat_bias)
    logits = logits.reshape(*input.shape[:-1], *shape)
    ignored = -100 if ignore_index is None else ignore_index
    return cross_entropy(
        logits, target, weight=weight, ignore_index=ignored, reduction=reduction, label_smoothing=label_smoothing
    )
