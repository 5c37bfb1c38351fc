"""torch.sparse: functions of sparse tensors. Tensors are made by torch.sparse_coo_tensor and Tensor.to_sparse.

A sparse tensor is made of dense ones, its indices and values (docs/decisions/0015-sparse-tensors.md); what it does, it
does to them, so that gradients follow. Layouts: sparse_coo, also with dense dimensions, sparse_csr and sparse_csc.
"""

from .. import _C
from .._tensor import Tensor
from . import _compute, _parts
from ._compute import COO, coo, is_sparse, matmul, total
from ._make import sparse_coo_tensor, to_sparse
from ._tensor import CSR, SparseTensor

__all__ = [
    "addmm", "as_sparse_gradcheck", "check_sparse_tensor_invariants", "log_softmax", "mm", "sampled_addmm", "softmax",
    "spdiags", "spsolve", "sum",
]  # fmt: skip


def mm(mat1, mat2, reduce=None, *, out=None):
    """The product of two matrices, of which at least one is sparse: dense, or sparse when both are."""
    if reduce not in (None, "sum"):
        raise NotImplementedError(f"torch.sparse.mm: reduce={reduce} is not there yet")
    if not is_sparse(mat1) and not is_sparse(mat2):
        raise RuntimeError("torch.sparse.mm: one of the matrices must be sparse; torch.mm multiplies dense ones")
    return matmul(mat1, mat2)


def addmm(mat, mat1, mat2, *, beta=1.0, alpha=1.0):
    """beta * mat + alpha * (mat1 @ mat2), mat1 sparse."""
    return _compute.addmm(mat, mat1, mat2, beta=beta, alpha=alpha)


def sum(input, dim=None, dtype=None):
    """The sum of the elements along `dim`, all by default; sparse while a dimension with places is left."""
    if is_sparse(input):
        input.parts(COO, name="coalesce", expected="sparse coordinate tensor")
        return total(input.coalesced(), dim, dtype=dtype)
    raise RuntimeError("torch.sparse.sum: expected a sparse tensor")


def _normalised(name: str, input, dim: int, dtype):
    input.parts(COO, name=name, expected="sparse coordinate tensor")
    if not -input.dim() <= dim < input.dim():
        raise RuntimeError(f"{name}: dim must be non-negative and less than input dimensions, got {dim}")
    whole = input.coalesced()
    indices, values = whole._parts
    values = values if dtype is None else values.to(dtype)
    sizes, dim = whole.sparse_sizes(), dim % input.dim()
    if dim >= len(sizes):
        made = getattr(_C, name)(values, dim - len(sizes) + 1)
    else:
        made = _parts.normalise(indices, values, sizes, dim, name)
    return whole.with_values(made)


def softmax(input, dim: int, *, dtype=None):
    """softmax along `dim` of the elements that are there; the others count as minus infinity."""
    return _normalised("softmax", input, dim, dtype)


def log_softmax(input, dim: int, *, dtype=None):
    """The logarithm of softmax(input, dim)."""
    return _normalised("log_softmax", input, dim, dtype)


def sampled_addmm(input, mat1, mat2, *, beta=1.0, alpha=1.0, out=None):
    """beta * input + alpha * (mat1 @ mat2) at the places that `input`, sparse_csr, has."""
    input.parts(CSR, name="sampled_addmm", expected="sparse row compressed tensor")
    (rows, columns), values = input.as_coo()
    if mat1.shape[0] != input.shape[0] or mat2.shape[1] != input.shape[1] or mat1.shape[1] != mat2.shape[0]:
        raise RuntimeError(
            f"sampled_addmm: sizes do not fit: {list(input.shape)} and {list(mat1.shape)} @ {list(mat2.shape)}"
        )
    found = (mat1.index_select(0, rows) * mat2.t().index_select(0, columns)).sum(1)
    return input.with_values(values * beta + found * alpha)


def spdiags(diagonals, offsets, shape, layout=None):
    """A matrix with rows of `diagonals` on its diagonals: number j of a row lies in column j."""
    if layout is not None and layout not in (COO, CSR, _C.sparse_csc):
        raise RuntimeError("Only output layouts (Sparse, SparseCsc, SparseCsr) are supported")
    diagonals, offsets = diagonals.reshape((-1, diagonals.shape[-1])), offsets.reshape((-1,)).to(_C.int64)
    if offsets.shape[0] != diagonals.shape[0]:
        raise RuntimeError(
            f"Number of diagonals ({diagonals.shape[0]}) does not match the number of offsets ({offsets.shape[0]})"
        )
    if len(set(offsets.tolist())) != offsets.shape[0]:
        raise RuntimeError("Offset tensor contains duplicate values")
    n_rows, n_columns = shape
    columns = _C.arange(diagonals.shape[1], device=diagonals.device).expand(diagonals.shape)
    rows = columns - offsets.unsqueeze(1)
    here = (rows >= 0) & (rows < n_rows) & (columns < n_columns)
    made = coo((_C.stack([rows[here], columns[here]]), diagonals[here]), (n_rows, n_columns))
    return made if layout is None else _compute.in_layout(made, layout)


def spsolve(input, other, *, left=True):
    """Not there: raises, as PyTorch does where it was built without cuDSS."""
    raise RuntimeError("Calling linear solver with sparse tensors requires CUDA cuDSS, which is not there")


class check_sparse_tensor_invariants:  # noqa: N801
    """Whether the parts of a tensor that is made are checked: here their indices always are."""

    _enabled = False

    def __init__(self, enable: bool = True) -> None:
        self.state, self.saved = enable, None

    @staticmethod
    def is_enabled() -> bool:
        """What enable() and disable() said last."""
        return check_sparse_tensor_invariants._enabled

    @staticmethod
    def enable() -> None:
        """Notes it."""
        check_sparse_tensor_invariants._enabled = True

    @staticmethod
    def disable() -> None:
        """Notes it: indices are checked all the same."""
        check_sparse_tensor_invariants._enabled = False

    def __enter__(self):
        if self.saved is not None:
            raise RuntimeError("This context manager instance is already activated. Use a different instance.")
        self.saved, check_sparse_tensor_invariants._enabled = self.is_enabled(), self.state

    def __exit__(self, *error):
        check_sparse_tensor_invariants._enabled, self.saved = self.saved, None

    def __call__(self, function):
        def within(*args, **kwargs):
            with type(self)(self.state):
                return function(*args, **kwargs)

        return within


def as_sparse_gradcheck(gradcheck):
    """gradcheck for functions of sparse tensors, in and out: their values are varied (`masked`)."""

    def check(function, inputs, **kwargs):
        kwargs.pop("masked", None)
        given = [inputs] if isinstance(inputs, Tensor) else list(inputs)
        shells = [x.coalesced() if is_sparse(x) else None for x in given]
        parts = [x if shell is None else shell._parts[-1].detach() for x, shell in zip(given, shells, strict=True)]
        parts = [
            p.requires_grad_(x.requires_grad) if isinstance(p, Tensor) else p for p, x in zip(parts, given, strict=True)
        ]

        def dense(*parts):
            made = [p if shell is None else shell.with_values(p) for p, shell in zip(parts, shells, strict=True)]
            found = function(*made)
            several = isinstance(found, (tuple, list))
            found = [x.to_dense() if is_sparse(x) else x for x in (found if several else [found])]
            return tuple(found) if several else found[0]

        return gradcheck(dense, tuple(parts), **kwargs)

    return check


def _legacy(dtype_name: str):
    def make(*given, device=None):
        """torch.sparse.FloatTensor(indices, values, size) and kin."""
        dtype = getattr(_C, dtype_name)
        if not given or all(isinstance(x, int) for x in given) or isinstance(given[0], (tuple, list, _C.Size)):
            size = given[0] if given and not isinstance(given[0], int) else given
            return sparse_coo_tensor(size=tuple(size), dtype=dtype)
        if given[1].dtype != dtype:
            raise TypeError(f"expected values of {dtype}, got {given[1].dtype}")
        return sparse_coo_tensor(given[0], given[1], *given[2:], device=device)

    return make


for _name, _dtype in (
    ("FloatTensor", "float32"), ("DoubleTensor", "float64"), ("HalfTensor", "float16"), ("BFloat16Tensor", "bfloat16"),
    ("LongTensor", "int64"), ("IntTensor", "int32"), ("ShortTensor", "int16"), ("CharTensor", "int8"),
    ("ByteTensor", "uint8"),
):  # fmt: skip
    globals()[_name] = _legacy(_dtype)
