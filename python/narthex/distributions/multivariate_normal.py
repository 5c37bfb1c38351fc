"""The normal distribution of vectors."""

import math

from .. import _C, linalg
from ..functional import broadcast_tensors
from . import constraints
from .distribution import Distribution
from .utils import lazy_property


def _squared_distance(lower, x):
    """|L⁻¹ x|² for a batch of lower triangles and a larger batch of vectors."""
    shape = broadcast_tensors(x, lower[..., 0])[0].shape
    solved = linalg.solve_triangular(lower, x.expand(shape).unsqueeze(-1), upper=False)
    return solved.squeeze(-1).pow(2).sum(-1)


def _precision_to_scale_tril(P):
    """The Cholesky factor of the inverse of `P`. Packages take it from here by this name."""
    upper = _C.flip(linalg.cholesky(_C.flip(P, (-2, -1))), (-2, -1)).mT
    return linalg.solve_triangular(upper, _C.eye(P.shape[-1], dtype=P.dtype, device=P.device), upper=False)


class MultivariateNormal(Distribution):
    """With mean `loc` and one of covariance, its inverse, and its Cholesky factor."""

    arg_constraints = {
        "loc": constraints.real_vector, "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite, "scale_tril": constraints.lower_cholesky,
    }  # fmt: skip
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        given = {"covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix, "scale_tril": scale_tril}
        given = {name: value for name, value in given.items() if value is not None}
        if len(given) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        ((name, matrix),) = given.items()
        if matrix.dim() < 2:
            raise ValueError(f"{name} must be at least two-dimensional, with optional leading batch dimensions")
        batch = broadcast_tensors(_C.empty(matrix.shape[:-2]), _C.empty(loc.shape[:-1]))[0].shape
        setattr(self, name, matrix.expand((*batch, -1, -1)))
        self.loc = loc.expand((*batch, -1))
        super().__init__(batch, self.loc.shape[-1:], validate_args=validate_args)
        if scale_tril is not None:
            self._unbroadcasted_scale_tril = scale_tril
        elif covariance_matrix is not None:
            self._unbroadcasted_scale_tril = linalg.cholesky(covariance_matrix)
        else:
            self._unbroadcasted_scale_tril = _precision_to_scale_tril(precision_matrix)

    def expand(self, batch_shape, _instance=None):
        n, names = self.event_shape, ("loc", "covariance_matrix", "scale_tril", "precision_matrix")
        per = {name: n if name == "loc" else n + n for name in names}
        new = self._expanded(MultivariateNormal, batch_shape, _instance, names, n, per)
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril
        return new

    def _whole(self, matrix):
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def scale_tril(self):
        return self._whole(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self):
        return self._whole(self._unbroadcasted_scale_tril @ self._unbroadcasted_scale_tril.mT)

    @lazy_property
    def precision_matrix(self):
        return self._whole(_C.cholesky_inverse(self._unbroadcasted_scale_tril))

    mean = mode = property(lambda self: self.loc)

    @property
    def variance(self):
        return self._unbroadcasted_scale_tril.pow(2).sum(-1).expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        eps = _C.empty(shape, dtype=self.loc.dtype, device=self.loc.device).normal_()
        return self.loc + (self._unbroadcasted_scale_tril @ eps.unsqueeze(-1)).squeeze(-1)

    def _half_log_det(self):
        return self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        distance = _squared_distance(self._unbroadcasted_scale_tril, value - self.loc)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + distance) - self._half_log_det()

    def entropy(self):
        entropy = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._half_log_det()
        return entropy if len(self._batch_shape) == 0 else entropy.expand(self._batch_shape)
