"""Randomised factorizations of matrices of low rank: Halko, Martinsson and Tropp, "Finding structure with randomness",
2009, algorithms 4.4 and 5.1, in the order of PyTorch's steps, so that the same seed gives the same numbers."""

from . import _C
from .linalg import qr, svd


def get_approximate_basis(A, q: int, niter: int = 2, M=None):
    """An orthonormal basis of q columns that nearly spans the columns of A, or of A - M: (*, m, n) gives (*, m, q).

    The numbers that it begins with are drawn from the default generator; `niter` is the number of power iterations.
    """
    if A.dtype not in (_C.float32, _C.float64, _C.complex64, _C.complex128):
        A = A.to(_C.float32)

    def times(matrix, x):
        return matrix(A) @ x if M is None else matrix(A) @ x - matrix(M) @ x

    def plain(x):
        return x

    start = _C.randn(A.shape[-1], q, dtype=A.dtype, device=A.device)
    basis = qr(times(plain, start)).Q
    for _ in range(niter):
        basis = qr(times(lambda x: x.mH, basis)).Q
        basis = qr(times(plain, basis)).Q
    return basis


def svd_lowrank(A, q: int | None = 6, niter: int | None = 2, M=None):
    """(U, S, V) with A, or A - M, nearly U diag(S) V^H, of rank q: (*, m, n) gives (*, m, q), (*, q), (*, n, q)."""
    q, niter = 6 if q is None else q, 2 if niter is None else niter
    m, n = A.shape[-2:]
    if M is not None:
        M = M.broadcast_to(A.shape)
    wide = m < n
    if wide:
        A, M = A.mH, None if M is None else M.mH
    basis = get_approximate_basis(A, q, niter, M)
    small = basis.mH @ A if M is None else basis.mH @ (A - M)
    U, S, Vh = svd(small, full_matrices=False)
    U, V = basis @ U, Vh.mH
    return (V, S, U) if wide else (U, S, V)


def pca_lowrank(A, q: int | None = None, center: bool = True, niter: int = 2):
    """(U, S, V) of A with the mean of each column taken away (`center`): its principal directions are V's columns."""
    m, n = A.shape[-2:]
    if q is None:
        q = min(6, m, n)
    elif not 0 <= q <= min(m, n):
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}")
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    if center:
        A = A - A.mean(dim=-2, keepdim=True)
    return svd_lowrank(A, q, niter)
