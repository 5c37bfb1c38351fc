"""torch.embedding_bag: sums, means and greatest elements of rows of a table, bag by bag."""

from . import _C

MODES = ("sum", "mean", "max")


def _check(weight, indices, offsets, per_sample_weights, mode: int, include_last_offset: bool) -> None:
    kinds = (_C.int64, _C.int32)
    for name, value in (("indices", indices), ("offsets", offsets)):
        if value.dim() != 1:
            raise RuntimeError(f"{name} has to be a 1D Tensor, but got Tensor of dimension {value.dim()}")
        if value.dtype not in kinds:
            raise RuntimeError(
                f"Expected tensor for argument #1 '{name}' to have one of the following scalar types: Long, Int; but "
                f"got {value.dtype} instead (while checking arguments for embedding_bag)"
            )
    if weight.dim() != 2:
        raise RuntimeError(f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.dim()}")
    if include_last_offset and offsets.numel() < 1:
        raise RuntimeError("include_last_offset: number of offset should be at least 1")
    if per_sample_weights is not None:
        if mode != 0:
            raise RuntimeError("embedding_bag: per_sample_weights only supported with mode='sum'")
        if per_sample_weights.dim() != 1 or per_sample_weights.numel() != indices.numel():
            raise RuntimeError(
                "embedding_bag: expected per_sample_weights to be a 1D Tensor with as many elements as indices"
            )


def _greatest(rows, bag, kept, bags: int):
    """Of each bag and column the first row that has the greatest element, and that element; 0 of an empty bag."""
    places = bag.unsqueeze(1).expand(rows.shape)
    values = rows.detach().masked_fill(~kept.unsqueeze(1), float("-inf"))
    top = _C.full((bags, rows.shape[1]), float("-inf"), dtype=rows.dtype, device=rows.device)
    top = top.scatter_reduce(0, places, values, "amax")
    n = rows.shape[0]
    here = _C.arange(n, device=rows.device).unsqueeze(1).expand(rows.shape)
    here = _C.where((values == top.gather(0, places)) & kept.unsqueeze(1), here, n)
    first = _C.full(top.shape, n, dtype=_C.int64, device=rows.device).scatter_reduce(0, places, here, "amin")
    found = first < n
    if n == 0:
        return _C.zeros_like(top), first, found
    picked = rows.gather(0, first.clamp(max=n - 1))
    return picked.masked_fill(~found, 0), first, found


def embedding_bag(
    weight, indices, offsets, scale_grad_by_freq=False, mode=0, sparse=False, per_sample_weights=None,
    include_last_offset=False, padding_idx=None,
):  # fmt: skip
    """(result, the bag of each index, the bags' sizes, the places of the greatest elements)."""
    _check(weight, indices, offsets, per_sample_weights, mode, include_last_offset)
    bags, n = offsets.numel() - bool(include_last_offset), indices.numel()
    if offsets.numel() and not _C.is_capturing() and not offsets._is_fake:
        first, last = int(offsets[0]), int(offsets[-1])
        if first != 0:
            raise RuntimeError(
                "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. "
                f"However, got {first}"
            )
        if last > n:
            raise RuntimeError(f"offsets[-1] can not be greater than input's length {n} but got offsets[-1] of {last}")
        if offsets.numel() > 1 and bool((offsets[1:] < offsets[:-1]).any()):
            raise RuntimeError("embedding_bag: offsets must not fall: each bag begins where the one before ends")
    bag = _C.searchsorted(offsets[:bags].to(_C.int64), _C.arange(n, device=indices.device), right=True) - 1
    n_rows = weight.shape[0]
    if padding_idx is not None and not -n_rows <= padding_idx < n_rows:
        raise RuntimeError(
            f"padding_idx must be within the number of embeddings, -{n_rows} through {n_rows - 1}, but got "
            f"{padding_idx}"
        )
    if padding_idx is not None and padding_idx < 0:
        padding_idx += weight.shape[0]
    kept = _C.ones_like(indices, dtype=_C.bool) if padding_idx is None else indices != padding_idx
    counts = _C.zeros((bags,), dtype=_C.int64, device=indices.device).index_add(0, bag, kept.to(_C.int64))
    if sparse and weight.requires_grad and _C.is_grad_enabled():
        from .sparse._gradients import RowsOf

        rows = RowsOf.apply(weight, indices, -1 if padding_idx is None else padding_idx)
    else:
        rows = weight.index_select(0, indices)
    if scale_grad_by_freq:  # of the gradient alone
        times = weight.detach().new_zeros(weight.shape[0], dtype=_C.int64)
        times = times.index_add(0, indices, _C.ones_like(indices, dtype=_C.int64)).index_select(0, indices)
        rows = rows.detach() + (rows - rows.detach()) / times.unsqueeze(1)
    if mode == 2:
        result, first, found = _greatest(rows, bag, kept, bags)
        places = indices[first.clamp(max=n - 1)] if n else first
        return result, bag, counts, places.masked_fill(~found, 0 if padding_idx is None else -1)
    if rows.dtype in (_C.float16, _C.bfloat16):
        rows = rows.float()
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    if padding_idx is not None:
        rows = rows.masked_fill(~kept.unsqueeze(1), 0)
    result = _C.zeros((bags, weight.shape[1]), dtype=rows.dtype, device=rows.device).index_add(0, bag, rows)
    if mode == 1:
        result = result / counts.clamp(min=1).unsqueeze(1).to(result.dtype)
    return result.to(weight.dtype), bag, counts, counts.new_zeros(counts.shape if mode else (0,))


def embedding_renorm_(self, indices, max_norm: float, norm_type: float):
    """Scales those of the rows at `indices` whose norm is above `max_norm` down to it; in place."""
    from .nn._bags import limit_norms

    limit_norms(self, indices, max_norm, norm_type)
    return self
