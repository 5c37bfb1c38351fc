"""Pieces of tensors: reductions of segments, rows picked under a mask, tensors cut and joined piece by piece."""

from . import _C

_REDUCE = {"sum": "sum", "prod": "prod", "mean": "mean", "max": "amax", "min": "amin"}
_START = {"sum": 0.0, "prod": 1.0, "max": float("-inf"), "min": float("inf")}


def _check_segments(data, reduce: str, lengths, indices, offsets) -> None:
    if reduce not in _REDUCE:
        raise RuntimeError(f"segment_reduce(): unsupported reduction {reduce}")
    if data.numel() == 0 and data.dim() == 0:
        raise RuntimeError("segment_reduce(): Expected data.numel() > 0")
    if indices is not None:
        raise RuntimeError("segment_reduce(): indices based reduction is not supported yet.")
    if lengths is None and offsets is None:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")


def segment_reduce(data, reduce: str, *, lengths=None, indices=None, offsets=None, axis: int = 0, unsafe: bool = False,
                   initial=None):  # fmt: skip
    """Each segment of `data` along `axis` reduced to one element; `lengths`, or the `offsets` between them, say how
    long they are, for each place of the dimensions in front of `axis`.
    """
    _check_segments(data, reduce, lengths, indices, offsets)
    axis = axis % data.dim() if data.dim() else 0
    if lengths is None:
        ends = offsets[..., 1:]
    else:
        ends = lengths.cumsum(-1)
        if not unsafe and not _C.is_capturing() and not lengths._is_fake:
            if lengths.numel() and bool((lengths < 0).any()):
                raise RuntimeError("lengths contains negative value!")
            if bool((lengths.sum(-1) != data.size(axis)).any()):
                raise RuntimeError("segment_reduce(): Expected all rows of lengths along axis to sum to "
                                   "data.size(lengths.dim()-1) when !unsafe.")  # fmt: skip
    count, size = ends.shape[-1], data.shape[axis]
    ends = ends.contiguous()
    places = _C.arange(size, dtype=ends.dtype).expand(ends.shape[:-1] + (size,)).contiguous()
    at = _C.searchsorted(ends, places, right=True)  # the segment of each place; `count` behind the last
    if lengths is None:
        at = _C.where(places < offsets[..., :1], _C.full_like(at, count), at)
    at = at.reshape(tuple(at.shape) + (1,) * (data.dim() - axis - 1)).expand(data.shape)
    shape = data.shape[:axis] + (count + 1,) + data.shape[axis + 1 :]
    start = _START.get(reduce, 0.0) if initial is None else initial
    made = _C.full(shape, start, dtype=data.dtype, device=data.device)
    if reduce == "mean":
        of_segment = _C.ones_like(data).detach()
        sums = made.scatter_add(axis, at, data)
        counts = _C.zeros_like(made).scatter_add(axis, at, of_segment)
        empty = float("nan") if initial is None else initial
        found = _C.where(counts == 0, _C.full_like(sums, empty), sums / counts.clamp(min=1))
    elif reduce == "sum":
        found = made.scatter_add(axis, at, data)
    else:
        found = made.scatter_reduce(axis, at, data, _REDUCE[reduce], include_self=True)
    return found.narrow(axis, 0, count)


_segment_reduce = segment_reduce


def _within(self, indices) -> list:
    """Indices inside of the dimensions that they pick from."""
    return [None if one is None else one.clamp(-self.shape[d], self.shape[d] - 1) for d, one in enumerate(indices)]


def _index(self, indices):
    return self[tuple(slice(None) if one is None else one for one in indices)]


def _unsafe_masked_index(self, mask, indices, fill):
    """What `self` has at `indices`, `fill` where `mask` is False: there an index may be out of range."""
    return _index(self, _within(self, indices)).masked_fill(mask.logical_not(), fill)


def _unsafe_masked_index_put_accumulate(self, mask, indices, values):
    """`self` with `values` added at `indices`, where `mask` is True."""
    if self.numel() == 0:
        return self.clone()
    return self.index_put(_within(self, indices), values.masked_fill(mask.logical_not(), 0), accumulate=True)


def _chunk_cat(tensors, dim: int, num_chunks: int, *, out=None):
    """Each tensor, padded with zeros, cut into `num_chunks` pieces along `dim`; first pieces first, side by side."""
    if num_chunks < 1:
        raise RuntimeError("_chunk_cat expects positive num_chunks")
    if not tensors:
        raise RuntimeError("_chunk_cat expects a non-empty input tensor list")
    first = tensors[0]
    if dim < 0 and any(one.dim() != first.dim() for one in tensors):
        raise RuntimeError("_chunk_cat expects non-negative dim when input tensors have different ndims")
    dim = dim % first.dim() if dim < 0 and first.dim() else dim
    for one in tensors:
        if one.numel() == 0:
            raise RuntimeError("_chunk_cat expects non-empty tensor")
        if one.dtype is not first.dtype:
            raise RuntimeError("_chunk_cat expects all input tensors with the same dtype")
        if dim >= one.dim():
            raise RuntimeError("_chunk_cat expects dim < ndim for all input tensors")
        if one.shape[:dim] != first.shape[:dim]:
            raise RuntimeError("_chunk_cat expects same sizes of 0,...,dim-1 dimensions for all tensors")
    pieces = []
    for one in tensors:
        size = one.shape[dim]
        each = -(-size // num_chunks)
        pad = [0, 0] * (one.dim() - dim - 1) + [0, each * num_chunks - size]
        whole = _C.constant_pad_nd(one, pad) if pad[-1] else one
        pieces.append(whole.reshape(one.shape[:dim] + (num_chunks, -1)))
    found = _C.cat(pieces, dim + 1)
    return found if out is None else out.copy_(found)
