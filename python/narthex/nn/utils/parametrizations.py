"""Parametrizations that are often wanted: orthogonal matrices, weight norm, spectral norm."""

from enum import Enum, auto

from ... import _C, linalg
from ...autograd.grad_mode import no_grad
from ..modules.module import Module
from . import parametrize
from ._norms import as_matrix, iterate, norm_except_dim, unit, weight_of
from .spectral_norm import _usual_dim

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


class _Orthogonal(Module):
    """A matrix with orthonormal columns (rows, if it is wide) from one without a constraint.

    With `use_trivialization` the result is a rotation of `base`, which is where the matrix began (Lezcano 2019).
    """

    def __init__(self, weight, orthogonal_map: "_OrthMaps", *, use_trivialization: bool = True) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map is _OrthMaps.householder:
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape, self.orthogonal_map = weight.shape, orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def _rotated(self, x, n: int, k: int):
        """Of a tall matrix, by a function that makes skew-symmetric matrices orthogonal."""
        x = x.tril()
        if n != k:
            x = _C.cat([x, x.new_zeros(n, n - k).expand(*x.shape[:-2], -1, -1)], -1)
        skew = x - x.mH
        if self.orthogonal_map is _OrthMaps.matrix_exp:
            q = _C.matrix_exp(skew)
        else:
            one = _C.eye(n, dtype=skew.dtype, device=skew.device)
            q = linalg.solve(_C.add(one, skew, alpha=-0.5), _C.add(one, skew, alpha=0.5))
        return q if n == k else q[..., :k]

    @staticmethod
    def _reflected(x):
        """Of a tall matrix: the product of the reflections at its columns below the diagonal."""
        columns = x.tril(-1)
        q = linalg.householder_product(columns, 2.0 / (1.0 + (columns * columns).sum(-2)))
        return q * x.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)

    def forward(self, x):
        n, k = x.size(-2), x.size(-1)
        wide = n < k
        if wide:
            x, n, k = x.mT, k, n
        q = self._reflected(x) if self.orthogonal_map is _OrthMaps.householder else self._rotated(x, n, k)
        if hasattr(self, "base"):
            q = self.base @ q
        return q.mT if wide else q

    def right_inverse(self, q):
        """Takes `q` for the base, made orthogonal if it is not; or, without a base, the reflections that make it."""
        if q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {q.shape}."
            )
        with no_grad():
            return self._start(q) if hasattr(self, "base") else self._reflections(q)

    def _reflections(self, q):
        if self.orthogonal_map is not _OrthMaps.householder:
            raise NotImplementedError(
                "It is not possible to assign to the matrix exponential "
                "or the Cayley parametrizations when use_trivialization=False."
            )
        wide = q.size(-2) < q.size(-1)
        columns, tau = _C.geqrf(q.mT if wide else q)
        signs = columns.diagonal(dim1=-2, dim2=-1)
        signs.copy_(signs.sign() * (1 - 2 * (tau == 0).to(signs.dtype)))  # no reflection: LAPACK leaves an exact 0
        return columns.mT if wide else columns

    def _start(self, given):
        q = given.mT if given.size(-2) < given.size(-1) else given
        n, k = q.size(-2), q.size(-1)
        if n == k:
            q = q.clone() if _is_orthogonal(q) else _orthogonalized(q)
        else:
            more = _C.randn(*q.size()[:-2], n, n - k, dtype=q.dtype, device=q.device)
            q = _orthogonalized(_C.cat([q, more], -1))
        self.base = q
        start = _C.zeros_like(given)  # what every map takes to the first columns of the identity
        start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        return start


class _OrthMaps(Enum):
    matrix_exp = auto()
    cayley = auto()
    householder = auto()


def _is_orthogonal(q) -> bool:
    from ..._type_info import finfo

    one = _C.eye(q.size(-1), dtype=q.dtype, device=q.device)
    return _C.allclose(q.mH @ q, one.expand_as(q.mH @ q), atol=10.0 * q.size(-2) * finfo(q.dtype).eps)


def _orthogonalized(a):
    """The Q of `a` = Q R where the diagonal of R is positive."""
    reflections, tau = _C.geqrf(a)
    q = linalg.householder_product(reflections, tau)
    return q * reflections.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


def orthogonal(module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True):
    """Keeps the matrices of `name` orthogonal, by "matrix_exp", "cayley" or "householder"; returns the module."""
    weight = getattr(module, name, None)
    if not isinstance(weight, _C.TensorBase):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.dim() < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.dim()} dimensions.")
    if orthogonal_map is None:
        square = weight.size(-2) == weight.size(-1) or weight.is_complex()
        orthogonal_map = "matrix_exp" if square else "householder"
    which = getattr(_OrthMaps, orthogonal_map, None)
    if which is None:
        raise ValueError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}'
        )
    made = _Orthogonal(weight, which, use_trivialization=use_trivialization)
    return parametrize.register_parametrization(module, name, made, unsafe=True)


class _WeightNorm(Module):
    """A weight from its norms and its direction."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g, weight_v):
        return weight_of(weight_v, weight_g, self.dim)

    def right_inverse(self, weight):
        """(the norms, the weight)"""
        return norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module, name: str = "weight", dim: int | None = 0):
    """Makes the weight `name` from its norms over all dimensions but `dim` (original0) and its direction (original1);
    returns the module. State_dicts of the older weight_norm fit."""
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def read_old(state_dict, prefix, *_) -> None:
        old = [f"{prefix}{name}_g", f"{prefix}{name}_v"]
        if all(key in state_dict for key in old):
            for k, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{name}.original{k}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(read_old)
    return module


class _SpectralNorm(Module):
    """A weight over its largest singular value; _u and _v are its singular vectors, found by power iteration."""

    def __init__(self, weight, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        n_dims = weight.dim()
        if not -n_dims <= dim < n_dims:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{n_dims}, {n_dims - 1}] but got {dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.dim, self.eps = dim % n_dims, eps
        if n_dims == 1:
            return
        self.n_power_iterations = n_power_iterations
        matrix = as_matrix(weight.detach(), self.dim)
        u, v = (matrix.new_empty(n).normal_(0, 1) for n in matrix.size())
        self.register_buffer("_u", unit(u, eps))
        self.register_buffer("_v", unit(v, eps))
        with no_grad():
            iterate(matrix, self._u, self._v, 15, eps)

    def forward(self, weight):
        if weight.dim() == 1:
            return unit(weight, self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            with no_grad():
                iterate(matrix, self._u, self._v, self.n_power_iterations, self.eps)
        u, v = self._u.clone(), self._v.clone()  # the next forward writes them, and this one's backward reads them
        return weight / _C.vdot(u, _C.mv(matrix, v))

    def right_inverse(self, value):
        """`value`, which should have the norm 1."""
        return value


def spectral_norm(module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim=None):
    """Divides the weight `name` by its largest singular value; returns the module. `dim`: that of the outputs; None: 0,
    of transposed convolutions 1."""
    weight = getattr(module, name, None)
    if not isinstance(weight, _C.TensorBase):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    dim = _usual_dim(module) if dim is None else dim
    return parametrize.register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))
