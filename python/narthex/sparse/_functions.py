"""Functions of torch, and methods of every tensor, that are about sparse tensors."""

from .. import _C
from ._compute import COO, is_sparse, matmul
from ._tensor import HANDLERS


def spmm(mat1, mat2):
    """torch.mm(mat1, mat2)."""
    return matmul(mat1, mat2) if is_sparse(mat1) or is_sparse(mat2) else _C.mm(mat1, mat2)


dsmm = spmm


def _of_sparse(name: str):
    def function(self, *args, **kwargs):
        """Of a sparse tensor."""
        if not any(is_sparse(x) for x in (self, *args)):
            raise RuntimeError(f"{name}: expected a sparse tensor, but got a tensor of layout torch.strided")
        return HANDLERS[name](self, *args, **kwargs)

    function.__name__ = function.__qualname__ = name
    return function


hspmm, smm, sspaddmm, resize_as_sparse_, sparse_mask, sparse_resize_, sparse_resize_and_clear_ = map(
    _of_sparse,
    ("hspmm", "smm", "sspaddmm", "resize_as_sparse_", "sparse_mask", "sparse_resize_", "sparse_resize_and_clear_"),
)
hsmm, saddmm = hspmm, sspaddmm


def _absent(name: str, backend: str) -> NotImplementedError:
    return NotImplementedError(f"Could not run 'aten::{name}' with arguments from the '{backend}' backend.")


def _part_copied(name: str):
    def function(input, *, out=None):
        """A part of a compressed sparse matrix, in memory of its own."""
        if is_sparse(input) and input.layout == COO:
            raise _absent(f"{name}_copy", "SparseCPU")
        found = getattr(input, name)().clone()
        if out is None:
            return found
        if out.dtype != found.dtype:
            raise RuntimeError(f"Expected out tensor to have dtype {found.dtype}, but got {out.dtype} instead")
        return out.resize_(found.shape).copy_(found)

    function.__name__ = function.__qualname__ = f"{name}_copy"
    return function


ccol_indices_copy, col_indices_copy, crow_indices_copy, indices_copy, row_indices_copy, values_copy = map(
    _part_copied, ("ccol_indices", "col_indices", "crow_indices", "indices", "row_indices", "values")
)


def native_norm(input, p=2, dim=None, keepdim=False, dtype=None):
    """The norm over all elements of a sparse tensor."""
    if not is_sparse(input):
        raise _absent("native_norm", "CPU")
    return HANDLERS["norm"](input, p, dim, keepdim, dtype)


def _convert_indices_from_coo_to_csr(self, size: int, *, out_int32: bool = False):
    """Where each of `size` rows begins among the elements, whose rows `self` names in order."""
    from ._parts import pointers_of

    return pointers_of(self.to(_C.int64), size).to(_C.int32 if out_int32 else _C.int64)


def _convert_indices_from_csr_to_coo(crow_indices, col_indices, *, out_int32: bool = False, transpose: bool = False):
    """int64[2, n]: the rows and columns of the elements."""
    from ._parts import rows_of

    rows, columns = rows_of(crow_indices.to(_C.int64)), col_indices.to(_C.int64)
    return _C.stack([columns, rows] if transpose else [rows, columns]).to(_C.int32 if out_int32 else _C.int64)
