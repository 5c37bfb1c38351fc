"""torch.lobpcg: some of the eigenvalues at one end of a symmetric matrix, with their vectors."""

from . import _C


def lobpcg(A, k=None, B=None, X=None, n=None, iK=None, niter=None, tol=None, largest=None, method=None, tracker=None,
           ortho_iparams=None, ortho_fparams=None, ortho_bparams=None):  # fmt: skip
    """The `k` largest eigenvalues of A x = e B x (`largest` False: the smallest) and their vectors, as columns. A is
    symmetric, B positive definite, or None for the identity. PyTorch approaches them step by step; here all are
    computed by linalg.eigh, so what a start or an end of steps is (`X`, `iK`, `niter`, `tol`, `method`, `ortho_*`)
    changes nothing but the number of vectors that X has."""
    from . import linalg

    if not isinstance(A, _C.TensorBase):
        raise TypeError(f"lobpcg: A must be a Tensor, not {type(A).__name__}")
    if method not in (None, "basic", "ortho"):
        raise ValueError(f"lobpcg: method must be 'basic' or 'ortho', not {method!r}")
    if tracker is not None:
        raise NotImplementedError("lobpcg: tracker: there are no steps that it could be called for")
    if getattr(A, "is_sparse", False) or getattr(A, "is_sparse_csr", False):
        A = A.to_dense()
    if B is not None and (getattr(B, "is_sparse", False) or getattr(B, "is_sparse_csr", False)):
        B = B.to_dense()
    if A.dim() < 2 or A.shape[-1] != A.shape[-2]:
        raise RuntimeError(f"lobpcg: A must be a square matrix or a batch of them, not of size {tuple(A.shape)}")
    if not A.is_floating_point():
        A = A.to(_C.get_default_dtype())
    k = (1 if X is None else X.shape[-1]) if k is None else k
    n = (k if n is None else n) if X is None else X.shape[-1]
    rows = A.shape[-1]
    if rows < 3 * n:
        raise ValueError(f"LOBPCG algorithm is not applicable when the number of A rows (={rows}) "
                         f"is smaller than 3 x the number of requested eigenpairs (={n})")  # fmt: skip
    if B is None:
        values, vectors = linalg.eigh(A)
    else:
        root = linalg.cholesky(B)  # A x = e B x is C y = e y with y the root's transpose times x
        half = linalg.solve_triangular(root, A, upper=False)
        middle = linalg.solve_triangular(root, half.mT, upper=False)
        values, vectors = linalg.eigh((middle + middle.mT) / 2)
        vectors = linalg.solve_triangular(root.mT, vectors, upper=True)
    if largest is None or largest:
        values, vectors = values.flip(-1), vectors.flip(-1)
    return values[..., :k], vectors[..., :k]
