"""Making sparse tensors: torch.sparse_coo_tensor and its kin, Tensor.to_sparse."""

from .. import _C
from .._from_numpy import as_tensor
from .._tensor import Tensor
from . import _parts
from ._compute import empty, in_layout, is_sparse
from ._tensor import COO, CSC, CSR, SparseTensor

BLOCKS = (_C.sparse_bsr, _C.sparse_bsc)


def _part(data, dtype, device):
    """A tensor of the caller's, on that device; numbers become one."""
    return as_tensor(data, dtype=dtype, device=device)


def _values(data, dtype, device):
    kind = data.dtype if isinstance(data, Tensor) else None
    return _part(data, dtype or kind, device)


def _check_places(indices, sizes) -> None:
    if indices.numel() == 0:
        return
    for d, (low, high) in enumerate(zip(indices.amin(1).tolist(), indices.amax(1).tolist(), strict=True)):
        if low < 0:
            raise RuntimeError(f"found negative index {low} for dim {d}")
        if high >= sizes[d]:
            raise RuntimeError(
                f"size is inconsistent with indices: for dim {d}, size is {sizes[d]} but found index {high}"
            )


def sparse_coo_tensor(
    indices=None, values=None, size=None, *, dtype=None, device=None, pin_memory=False, requires_grad=False,
    check_invariants=None, is_coalesced=None,
):  # fmt: skip
    """A tensor of `values` [n, ...] at the places `indices` int64[k, n] of its first k dimensions; equal places add up.

    size: by default the least one that has room. is_coalesced: True promises that each place is there once, in order.
    The values' history is the tensor's. Differs from PyTorch: indices are always checked. `size` alone: nothing but 0.
    """
    if values is None and (size is not None or isinstance(indices, (tuple, list))):
        made = empty(COO, tuple(indices if size is None else size), None, dtype or _C.get_default_dtype(), device)
        return made.requires_grad_(requires_grad)
    if isinstance(values, (tuple, list)) and size is None and isinstance(indices, int):
        raise TypeError("sparse_coo_tensor(): indices must be a tensor or a list")
    values = _values(values, dtype, device)
    values = values.view_as(values) if values.requires_grad else values  # a tensor of theirs is no leaf
    indices = _part(indices, None, values.device).to(_C.int64)
    indices = indices.unsqueeze(0) if indices.dim() == 1 and size is None else indices
    if values.dim() == 0:
        values = values.expand((indices.shape[-1],))
    if indices.dim() == 1:
        indices = (
            indices.unsqueeze(1) if values.shape[0] == 1 else indices.reshape((-1, 1)).expand((-1, values.shape[0]))
        )
    if indices.dim() != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(indices.shape)}")
    k, n = indices.shape
    if size is None:
        reach = (indices.amax(1) + 1).tolist() if n else [0] * k
        size = (*reach, *values.shape[1:])
    size = tuple(size)
    dense_dim = values.dim() - 1
    if len(size) != k + dense_dim:
        raise RuntimeError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(size)}, sparse_dim = {k}, "
            f"dense_dim = {dense_dim}"
        )
    if values.shape[0] != n:
        raise RuntimeError(
            f"indices and values must have same nnz, but got nnz from indices: {n}, nnz from values: {values.shape[0]}"
        )
    if tuple(values.shape[1:]) != size[k:]:
        raise RuntimeError(f"values has incorrect size, expected {[n, *size[k:]]}, got {list(values.shape)}")
    _check_places(indices, size)
    if is_coalesced:
        keys = _parts.keys_of(indices, size[:k])
        if n > 1 and not bool((keys[1:] > keys[:-1]).all()):
            raise RuntimeError("cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor")
    made = SparseTensor.make(COO, (indices, values), size, bool(is_coalesced))
    return made.requires_grad_() if requires_grad else made


def _compressed(layout, pointers, others, values, size, dtype, device, requires_grad):
    values = _values(values, dtype, device)
    kinds = [x.dtype if isinstance(x, Tensor) else None for x in (pointers, others)]
    pointers, others = (_part(x, kind, values.device) for x, kind in zip((pointers, others), kinds, strict=True))
    names = ("crow_indices", "col_indices") if layout == CSR else ("ccol_indices", "row_indices")
    for name, part in zip(names, (pointers, others), strict=True):
        if part.dtype not in (_C.int64, _C.int32):
            raise RuntimeError(f"{name} must be an int32 or int64 tensor, but got {part.dtype}")
        if part.dim() != 1:
            raise NotImplementedError(f"{name} of {part.dim()} dimensions: batches of {layout} are not there yet")
    if values.dim() != 1:
        raise NotImplementedError(
            f"values of {values.dim()} dimensions: {layout} with dense dimensions is not there yet"
        )
    pointers, others = pointers.to(_C.int64), others.to(_C.int64)
    rows = pointers.shape[0] - 1
    if size is None:
        columns = int(others.max()) + 1 if others.numel() else 0
        size = (rows, columns) if layout == CSR else (columns, rows)
    size = tuple(size)
    if len(size) != 2:
        raise NotImplementedError(f"size {list(size)}: {layout} of matrices alone is there yet")
    n, m = size if layout == CSR else size[::-1]
    if pointers.shape[0] != n + 1:
        raise RuntimeError(f"{names[0]}.shape[-1] must be equal to {n + 1}, but got {pointers.shape[0]}")
    if others.shape[0] != values.shape[0]:
        raise RuntimeError(
            f"number of elements of {names[1]} ({others.shape[0]}) and of values ({values.shape[0]}) must be the same"
        )
    if int(pointers[0]) != 0 or int(pointers[-1]) != values.shape[0] or bool((pointers[1:] < pointers[:-1]).any()):
        raise RuntimeError(
            f"`{names[0]}[0] == 0`, `{names[0]}[-1] == nnz` and rising numbers between are not satisfied"
        )
    if others.numel() and not (0 <= int(others.min()) and int(others.max()) < m):
        raise RuntimeError(f"`0 <= {names[1]} < {m}` is not satisfied")
    made = SparseTensor.make(layout, (pointers, others, values), size)
    return made.requires_grad_() if requires_grad else made


def sparse_csr_tensor(
    crow_indices, col_indices, values, size=None, *, dtype=None, device=None, pin_memory=False, requires_grad=False,
    check_invariants=None,
):  # fmt: skip
    """A matrix whose row i has values[crow_indices[i]:crow_indices[i + 1]] in the columns that col_indices names."""
    return _compressed(CSR, crow_indices, col_indices, values, size, dtype, device, requires_grad)


def sparse_csc_tensor(
    ccol_indices, row_indices, values, size=None, *, dtype=None, device=None, pin_memory=False, requires_grad=False,
    check_invariants=None,
):  # fmt: skip
    """A matrix whose column i has values[ccol_indices[i]:ccol_indices[i + 1]] in the rows that row_indices names."""
    return _compressed(CSC, ccol_indices, row_indices, values, size, dtype, device, requires_grad)


def sparse_compressed_tensor(
    compressed_indices, plain_indices, values, size=None, *, dtype=None, layout=None, device=None, pin_memory=False,
    requires_grad=False, check_invariants=None,
):  # fmt: skip
    """sparse_csr_tensor or sparse_csc_tensor, as `layout` says."""
    if layout not in (CSR, CSC):
        return _no_blocks(layout)
    return _compressed(layout, compressed_indices, plain_indices, values, size, dtype, device, requires_grad)


def _no_blocks(layout):
    raise NotImplementedError(f"{layout}: tensors of sparse blocks are not there yet; sparse_csr has their elements")


def rebuild(layout, data):
    """What files and copies hold: (indices, values, size[, is_coalesced]) or (pointers, indices, values, size).

    It is checked as what a caller gives."""
    if layout == COO:
        indices, values, size, *known = data
        return sparse_coo_tensor(indices, values, tuple(size), is_coalesced=bool(known and known[0]))
    pointers, others, values, size = data
    return sparse_compressed_tensor(pointers, others, values, tuple(size), layout=layout)


def sparse_bsr_tensor(*args, **kwargs):
    """Not there: raises."""
    _no_blocks(_C.sparse_bsr)


def sparse_bsc_tensor(*args, **kwargs):
    """Not there: raises."""
    _no_blocks(_C.sparse_bsc)


def to_sparse(self, sparse_dim=None, *, layout=None, blocksize=None, dense_dim=None):
    """The elements that are not 0, as a tensor of `layout`, sparse_coo by default: of the first `sparse_dim` dimensions
    (all of them) there are places, the others lie in each element."""
    if is_sparse(self):
        return in_layout(self, layout or COO)
    if layout in BLOCKS or blocksize is not None:
        _no_blocks(layout or _C.sparse_bsr)
    if layout not in (None, COO, CSR, CSC):
        raise RuntimeError(f"to_sparse: layout {layout} is none of sparse tensors")
    k = self.dim() if sparse_dim is None else sparse_dim
    if not 0 <= k <= self.dim() or (k == 0 and self.dim() > 0):
        raise RuntimeError(f"sparse_dim must be between 1 and {self.dim()}, got {sparse_dim}")
    indices, values = _parts.from_dense(self, k)
    return in_layout(SparseTensor.make(COO, (indices, values), tuple(self.shape), True), layout or COO)


def to_sparse_csr(self, dense_dim=None):
    """A matrix's elements that are not 0, row by row."""
    return to_sparse(self, layout=CSR)


def to_sparse_csc(self, dense_dim=None):
    """A matrix's elements that are not 0, column by column."""
    return to_sparse(self, layout=CSC)


def to_sparse_bsr(self, blocksize, dense_dim=None):
    """Not there: raises."""
    _no_blocks(_C.sparse_bsr)


def to_sparse_bsc(self, blocksize, dense_dim=None):
    """Not there: raises."""
    _no_blocks(_C.sparse_bsc)
