"""The Wishart distribution."""

import math
import warnings
from numbers import Number

from .. import _C, linalg
from ..functional import broadcast_tensors
from . import constraints
from .chi2 import Chi2
from .exp_family import ExponentialFamily
from .utils import lazy_property


def _mvdigamma(x, p: int):
    return _C.digamma(x.unsqueeze(-1) - _C.arange(p, dtype=x.dtype, device=x.device) / 2).sum(-1)


class Wishart(ExponentialFamily):
    """Of matrices: sums of products of normal vectors, `df` of them, of a covariance, its inverse, or its factor."""

    support = constraints.positive_definite
    has_rsample = True

    @property
    def arg_constraints(self) -> dict:
        return {
            "covariance_matrix": constraints.positive_definite, "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky, "df": constraints.greater_than(0),
        }  # fmt: skip

    def __init__(self, df, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None) -> None:
        given = {"covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix, "scale_tril": scale_tril}
        given = {name: value for name, value in given.items() if value is not None}
        if len(given) != 1:
            raise AssertionError(
                "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified."
            )  # fmt: skip
        ((name, matrix),) = given.items()
        if matrix.dim() < 2:
            raise ValueError("scale_tril must be at least two-dimensional, with optional leading batch dimensions")
        if isinstance(df, Number):
            batch = _C.Size(matrix.shape[:-2])
            self.df = _C.tensor(df, dtype=matrix.dtype, device=matrix.device)
        else:
            batch = broadcast_tensors(_C.empty(matrix.shape[:-2]), _C.empty(df.shape))[0].shape
            self.df = df.expand(batch)
        event = matrix.shape[-2:]
        if self.df.le(event[-1] - 1).any():
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {event[-1] - 1}.")
        setattr(self, name, matrix.expand((*batch, -1, -1)))
        if self.df.lt(event[-1]).any():
            warnings.warn(
                "Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < ndim.",
                stacklevel=2,
            )
        super().__init__(batch, event, validate_args=validate_args)
        self._batch_dims = list(range(-len(batch), 0))
        self._unbroadcasted_scale_tril = self._factor(name, matrix)
        self._dist_chi2 = Chi2(self._degrees(self.df, batch))

    def _degrees(self, df, batch):
        """Those of each row: one fewer than in the row before."""
        p = self._event_shape[-1]
        return df.unsqueeze(-1) - _C.arange(p, dtype=df.dtype, device=df.device).expand((*batch, -1))

    @staticmethod
    def _factor(name: str, matrix):
        if name == "scale_tril":
            return matrix
        if name == "covariance_matrix":
            return linalg.cholesky(matrix)
        upper = _C.flip(linalg.cholesky(_C.flip(matrix, (-2, -1))), (-2, -1)).mT
        eye = _C.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
        return linalg.solve_triangular(upper, eye, upper=False)

    def expand(self, batch_shape, _instance=None):
        batch_shape = _C.Size(batch_shape)
        per = dict.fromkeys(("covariance_matrix", "scale_tril", "precision_matrix"), self.event_shape)
        new = self._expanded(Wishart, batch_shape, _instance, ("df", *per), self.event_shape, per)
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril.expand(batch_shape + self.event_shape)
        new._batch_dims = list(range(-len(batch_shape), 0))
        new._dist_chi2 = Chi2(new._degrees(new.df, batch_shape))
        return new

    def _whole(self, matrix):
        return matrix.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def scale_tril(self):
        return self._whole(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self):
        return self._whole(self._unbroadcasted_scale_tril @ self._unbroadcasted_scale_tril.mT)

    @lazy_property
    def precision_matrix(self):
        return self._whole(_C.cholesky_inverse(self._unbroadcasted_scale_tril))

    @property
    def mean(self):
        return self.df.view((*self._batch_shape, 1, 1)) * self.covariance_matrix

    @property
    def mode(self):
        factor = self.df - self.covariance_matrix.shape[-1] - 1
        factor = factor.masked_fill(factor <= 0, float("nan"))
        return factor.view((*self._batch_shape, 1, 1)) * self.covariance_matrix

    @property
    def variance(self):
        v = self.covariance_matrix
        diagonal = v.diagonal(dim1=-2, dim2=-1)
        outer = diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self.df.view((*self._batch_shape, 1, 1)) * (v.pow(2) + outer)

    def _bartlett(self, sample_shape):
        p = self._event_shape[-1]
        noise = self._dist_chi2.rsample(sample_shape).sqrt().diag_embed(dim1=-2, dim2=-1)
        rows = _C.arange(p)
        below = rows.view(-1, 1) > rows
        shape = (*sample_shape, *self._batch_shape, p * (p - 1) // 2)
        drawn = _C.randn(shape, dtype=noise.dtype, device=noise.device)
        noise = noise.clone()
        noise[..., below] = drawn
        factor = self._unbroadcasted_scale_tril @ noise
        return factor @ factor.mT

    def _marked(self, mark):
        """Of a mark for each matrix, one for each draw of the batch."""
        return mark.amax(self._batch_dims) if self._batch_dims else mark

    def rsample(self, sample_shape=(), max_try_correction=None):
        """Draws; what is singular is drawn again, `max_try_correction` (3) times at most.

        As in PyTorch the first look takes the draws that are fine for singular ones: they are drawn again.
        """
        sample = self._bartlett(_C.Size(sample_shape))
        again = self._marked(self.support.check(sample))
        if again.any():
            warnings.warn("Singular sample detected.", stacklevel=2)
            for _ in range(3 if max_try_correction is None else max_try_correction):
                n = int(again.sum())
                drawn = self._bartlett((n,))
                wide = again.reshape((*again.shape, *[1] * (sample.dim() - again.dim()))).expand(sample.shape)
                sample = sample.masked_scatter(wide, drawn)
                again = again.masked_scatter(again, self._marked(self.support.check(drawn).logical_not()))
                if not again.any():
                    break
        return sample

    def _half_log_det(self):
        return self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        nu, p = self.df, self._event_shape[-1]
        solved = _C.cholesky_solve(value, self._unbroadcasted_scale_tril)
        return (
            -nu * (p * math.log(2) / 2 + self._half_log_det()) - _C.mvlgamma(nu / 2, p=p)
            + (nu - p - 1) / 2 * linalg.slogdet(value)[1] - solved.diagonal(dim1=-2, dim2=-1).sum(-1) / 2
        )  # fmt: skip

    def entropy(self):
        nu, p = self.df, self._event_shape[-1]
        return (
            (p + 1) * (p * math.log(2) / 2 + self._half_log_det()) + _C.mvlgamma(nu / 2, p=p)
            - (nu - p - 1) / 2 * _mvdigamma(nu / 2, p=p) + nu * p / 2
        )  # fmt: skip
