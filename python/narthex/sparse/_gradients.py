"""Gradients that are sparse: of a table whose rows are looked up; and what optimizers do with them."""

from .. import _C
from ..autograd.function import Function
from . import _parts
from ._tensor import COO, SparseTensor


class RowsOf(Function):
    """weight.index_select(0, indices) for any shape of indices, with a gradient that has the rows alone."""

    @staticmethod
    def forward(ctx, weight, indices, padding_idx: int):
        """padding_idx: the row that gets no gradient, -1: none."""
        ctx.save_for_backward(indices)
        ctx.size, ctx.padding_idx = weight.shape, padding_idx
        return _C.embedding(weight, indices)

    @staticmethod
    def backward(ctx, grad):
        (indices,) = ctx.saved_tensors
        places, rows = indices.reshape((1, -1)).to(_C.int64), grad.reshape((-1, ctx.size[1]))
        if ctx.padding_idx >= 0:
            kept = places[0] != ctx.padding_idx
            places, rows = places[:, kept], rows[kept]
        return SparseTensor.make(COO, (places, rows), ctx.size), None, None


def add_rows(x, change: SparseTensor, alpha=1):
    """x += alpha * change, at the places that `change` has."""
    places, values = change.as_coo()
    k = places.shape[0]
    if not x.is_contiguous():
        return x.copy_(x + change.to_dense() * alpha)
    flat = x.reshape((-1, *x.shape[k:]))
    flat.index_add_(0, _parts.keys_of(places, x.shape[:k]), values.to(x.dtype), alpha=alpha)
    return x
