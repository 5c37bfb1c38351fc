"""The normal distribution of vectors, with a covariance of low rank and a diagonal."""

import math

from .. import _C, linalg
from ..functional import broadcast_tensors
from . import constraints
from .distribution import Distribution
from .multivariate_normal import _squared_distance
from .utils import lazy_property


def _capacitance_tril(factor, diagonal):
    """The Cholesky factor of I + Wᵀ D⁻¹ W."""
    scaled = factor.mT / diagonal.unsqueeze(-2)
    return linalg.cholesky(scaled @ factor + _C.eye(factor.shape[-1], dtype=factor.dtype, device=factor.device))


class LowRankMultivariateNormal(Distribution):
    """With mean `loc` and covariance cov_factor · cov_factorᵀ + diag(cov_diag)."""

    arg_constraints = {
        "loc": constraints.real_vector, "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }  # fmt: skip
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc, cov_factor, cov_diag, validate_args=None) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event = _C.Size(loc.shape[-1:])
        if cov_factor.dim() < 2:
            raise ValueError("cov_factor must be at least two-dimensional, with optional leading batch dimensions")
        if cov_factor.shape[-2:-1] != event:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {event[0]} x m")
        if cov_diag.shape[-1:] != event:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {event}")
        try:
            whole, diagonal = broadcast_tensors(loc.unsqueeze(-1), cov_diag.unsqueeze(-1))
            whole, self.cov_factor = broadcast_tensors(whole, cov_factor)
            diagonal, _ = broadcast_tensors(diagonal, cov_factor)
        except RuntimeError as error:
            raise ValueError(
                f"Incompatible batch shapes: loc {loc.shape}, cov_factor {cov_factor.shape}, cov_diag {cov_diag.shape}"
            ) from error
        self.loc, self.cov_diag = whole[..., 0], diagonal[..., 0]
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        self._capacitance_tril = _capacitance_tril(cov_factor, cov_diag)
        super().__init__(self.loc.shape[:-1], event, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        n = self.event_shape
        per = {"loc": n, "cov_diag": n, "cov_factor": n + self.cov_factor.shape[-1:]}
        new = self._expanded(LowRankMultivariateNormal, batch_shape, _instance, tuple(per), n, per)
        for name in ("_unbroadcasted_cov_factor", "_unbroadcasted_cov_diag", "_capacitance_tril"):
            setattr(new, name, getattr(self, name))
        return new

    mean = mode = property(lambda self: self.loc)

    @lazy_property
    def variance(self):
        variance = self._unbroadcasted_cov_factor.pow(2).sum(-1) + self._unbroadcasted_cov_diag
        return variance.expand(self._batch_shape + self._event_shape)

    def _whole(self, matrix):
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def scale_tril(self):
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / root
        eye = _C.eye(scaled.shape[-2], dtype=scaled.dtype, device=scaled.device)
        return self._whole(root * linalg.cholesky(scaled @ scaled.mT + eye))

    @lazy_property
    def covariance_matrix(self):
        factor = self._unbroadcasted_cov_factor
        return self._whole(factor @ factor.mT + _C.diag_embed(self._unbroadcasted_cov_diag))

    @lazy_property
    def precision_matrix(self):
        scaled = self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)
        solved = linalg.solve_triangular(self._capacitance_tril, scaled, upper=False)
        return self._whole(_C.diag_embed(self._unbroadcasted_cov_diag.reciprocal()) - solved.mT @ solved)

    def rsample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        kind = {"dtype": self.loc.dtype, "device": self.loc.device}
        low = _C.empty(shape[:-1] + self.cov_factor.shape[-1:], **kind).normal_()
        each = _C.empty(shape, **kind).normal_()
        moved = (self._unbroadcasted_cov_factor @ low.unsqueeze(-1)).squeeze(-1)
        return self.loc + moved + self._unbroadcasted_cov_diag.sqrt() * each

    def _log_det(self):
        of_factor = 2 * self._capacitance_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        return of_factor + self._unbroadcasted_cov_diag.log().sum(-1)

    def _distance(self, x):
        """xᵀ Σ⁻¹ x"""
        scaled = self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)
        along = (scaled @ x.unsqueeze(-1)).squeeze(-1)
        straight = (x.pow(2) / self._unbroadcasted_cov_diag).sum(-1)
        return straight - _squared_distance(self._capacitance_tril, along)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        n = self._event_shape[0]
        return -0.5 * (n * math.log(2 * math.pi) + self._log_det() + self._distance(value - self.loc))

    def entropy(self):
        entropy = 0.5 * (self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._log_det())
        return entropy if len(self._batch_shape) == 0 else entropy.expand(self._batch_shape)
