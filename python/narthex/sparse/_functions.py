"""Functions of torch, and methods of every tensor, that are about sparse tensors."""

from .. import _C
from ._compute import is_sparse, matmul
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
hsmm = hspmm


def _convert_indices_from_coo_to_csr(self, size: int, *, out_int32: bool = False):
    """Where each of `size` rows begins among the elements, whose rows `self` names in order."""
    from ._parts import pointers_of

    return pointers_of(self.to(_C.int64), size).to(_C.int32 if out_int32 else _C.int64)


def _convert_indices_from_csr_to_coo(crow_indices, col_indices, *, out_int32: bool = False, transpose: bool = False):
    """int64[2, n]: the rows and columns of the elements."""
    from ._parts import rows_of

    rows, columns = rows_of(crow_indices.to(_C.int64)), col_indices.to(_C.int64)
    return _C.stack([columns, rows] if transpose else [rows, columns]).to(_C.int32 if out_int32 else _C.int64)
