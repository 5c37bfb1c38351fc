"""Student's t distribution."""

import math

from .. import _C
from . import constraints
from .chi2 import Chi2
from .distribution import Distribution
from .utils import broadcast_all


class StudentT(Distribution):
    """With `df` degrees of freedom, about `loc`, of width `scale`."""

    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, df, loc=0.0, scale=1.0, validate_args=None) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df)
        super().__init__(self.df.size(), validate_args=validate_args)

    @property
    def mean(self):
        return self.loc.masked_fill(self.df <= 1, math.nan)

    mode = property(lambda self: self.loc)

    @property
    def variance(self):
        known = self.scale.pow(2) * self.df / (self.df - 2)
        return known.masked_fill(self.df <= 2, math.inf).masked_fill(self.df <= 1, math.nan)

    def expand(self, batch_shape, _instance=None):
        new = self._expanded(StudentT, batch_shape, _instance, ("df", "loc", "scale"))
        new._chi2 = self._chi2.expand(batch_shape)
        return new

    def rsample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        x = _C.empty(shape, dtype=self.df.dtype, device=self.df.device).normal_()
        return self.loc + self.scale * (x * _C.rsqrt(self._chi2.rsample(sample_shape) / self.df))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        y = (value - self.loc) / self.scale
        z = (self.scale.log() + 0.5 * self.df.log() + 0.5 * math.log(math.pi)
             + _C.lgamma(0.5 * self.df) - _C.lgamma(0.5 * (self.df + 1.0)))  # fmt: skip
        return -0.5 * (self.df + 1.0) * _C.log1p(y**2.0 / self.df) - z

    def entropy(self):
        log_beta = _C.lgamma(0.5 * self.df) + math.lgamma(0.5) - _C.lgamma(0.5 * (self.df + 1))
        half = 0.5 * (self.df + 1)
        return self.scale.log() + half * (_C.digamma(half) - _C.digamma(0.5 * self.df)) + 0.5 * self.df.log() + log_beta
