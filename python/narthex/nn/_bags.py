"""embedding_bag: sums, means or maxima of the rows of an embedding, in the operators that there are; and max_norm."""

import warnings

from .. import _C
from ..autograd.grad_mode import no_grad


def limit_norms(weight, indices, max_norm: float, norm_type: float) -> None:
    """Scales, in place, those of the rows `indices` whose norm is above `max_norm`."""
    from .._distinct import unique

    with no_grad():
        rows = unique(indices.reshape(-1))
        values = weight.index_select(0, rows)
        norms = values.norm(norm_type, 1, keepdim=True)
        scales = _C.where(norms > max_norm, max_norm / (norms + 1e-7), _C.ones_like(norms))
        weight.index_copy_(0, rows, values * scales)


def _flat(input, offsets, weights, include_last: bool) -> tuple:
    """(indices, where each bag begins, weights, how many bags)."""
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length "
                f"sequences. However, found offsets of type {type(offsets)}"
            )
        starts = [k * input.size(1) for k in range(input.size(0))]
        return input.reshape(-1), starts, None if weights is None else weights.reshape(-1), input.size(0)
    if input.dim() != 1:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}")
    if offsets is None:
        raise ValueError("offsets has to be a 1D Tensor but got None")
    if offsets.dim() != 1:
        raise ValueError("offsets has to be a 1D Tensor")
    starts = offsets.tolist()
    if include_last and not starts:
        raise RuntimeError("include_last_offset: numBags should be at least 1")
    if starts and starts[0] != 0:
        raise RuntimeError(
            "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. However, "
            f"got {starts[0]}"
        )
    if starts and starts[-1] > input.numel():
        raise RuntimeError(
            f"offsets[-1] can not be greater than input's length {input.numel()} but got offsets[-1] of {starts[-1]}"
        )
    return input, starts, weights, len(starts) - include_last


def _largest(rows, bags: list, n_bags: int):
    """The largest numbers of the rows of each bag; 0 where it has none."""
    where: list = [[] for _ in range(n_bags)]
    for position, bag in enumerate(bags):
        where[bag].append(position)
    longest = max(map(len, where), default=0)
    if not longest:
        return rows.new_zeros(n_bags, rows.size(1))
    index = [(bag + bag[:1] * longest)[:longest] if bag else [rows.size(0)] * longest for bag in where]
    with_zeros = _C.cat([rows, rows.new_zeros(1, rows.size(1))])
    return with_zeros[_C.tensor(index, device=rows.device)].max(1).values


def embedding_bag(
    input, weight, offsets=None, max_norm: float | None = None, norm_type: float = 2,
    scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, per_sample_weights=None,
    include_last_offset: bool = False, padding_idx: int | None = None,
):  # fmt: skip
    """For each bag of numbers the sum, mean or maximum of the rows of `weight` at them. A bag is a row of `input`, or
    what lies between two of `offsets`. Rows `padding_idx` do not count.

    Differs from PyTorch: scale_grad_by_freq and sparse raise NotImplementedError.
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
    indices, starts, weights, n_bags = _flat(input, offsets, per_sample_weights, include_last_offset)
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    for name, value in (("scale_grad_by_freq", scale_grad_by_freq), ("sparse", sparse)):
        if value:
            raise NotImplementedError(f"embedding_bag: {name}={value!r} is not there yet; leave it out")
    if max_norm is not None:
        limit_norms(weight, indices, max_norm, norm_type)
    if weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' "
            f"(got mode='{mode}'). Please open a feature request on GitHub."
        )
    return _over_bags(indices, weight, starts, weights, n_bags, mode, padding_idx)


def _over_bags(indices, weight, starts: list, weights, n_bags: int, mode: str, padding_idx):
    ends = [*starts[1:n_bags], starts[n_bags] if len(starts) > n_bags else indices.numel()]
    bags = [bag for bag, (first, last) in enumerate(zip(starts, ends)) for _ in range(first, last)]
    indices = indices[: len(bags)]
    weights = None if weights is None else weights[: len(bags)]
    if padding_idx is not None:
        padding = padding_idx + weight.size(0) if padding_idx < 0 else padding_idx
        kept = [k for k, index in enumerate(indices.tolist()) if index != padding]
        chosen = _C.tensor(kept, dtype=_C.int64, device=indices.device)
        indices, bags = indices.index_select(0, chosen), [bags[k] for k in kept]
        weights = None if weights is None else weights.index_select(0, chosen)
    rows = _C.embedding(weight, indices, -1, False, False)
    if mode == "max":
        return _largest(rows, bags, n_bags)
    if weights is not None:
        rows = rows * weights.unsqueeze(1)
    where = _C.tensor(bags, dtype=_C.int64, device=rows.device)
    total = rows.new_zeros(n_bags, rows.size(1)).index_add(0, where, rows)
    if mode == "sum":
        return total
    counts = [0] * n_bags
    for bag in bags:
        counts[bag] += 1
    return total / _C.tensor([max(n, 1) for n in counts], dtype=rows.dtype, device=rows.device).unsqueeze(1)
