"""The generalized Pareto distribution."""

import math

from .. import _C
from . import constraints
from .distribution import Distribution
from .utils import batch_shape_of, broadcast_all


class GeneralizedPareto(Distribution):
    """From `loc` on, of width `scale`; `concentration` says how heavy the tail is, and where it ends below zero."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    has_rsample = True

    def __init__(self, loc, scale, concentration, validate_args=None) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(batch_shape_of(self.loc, loc, scale, concentration), validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        return self._expanded(GeneralizedPareto, batch_shape, _instance, ("loc", "scale", "concentration"))

    def _parts(self) -> tuple:
        """Whether the concentration is nearly zero, and the concentration with ones there."""
        zero = _C.isclose(self.concentration, _C.zeros_like(self.concentration))
        return zero, _C.where(zero, _C.ones_like(self.concentration), self.concentration)

    def rsample(self, sample_shape=()):
        u = _C.rand(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.icdf(u)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        zero, c = self._parts()
        exponent = 1 / c + _C.ones_like(z)
        return -_C.where(zero, z, exponent * _C.log1p(c * z)) - self.scale.log()

    def log_survival_function(self, value):
        """The logarithm of the probability of more than `value`."""
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        zero, c = self._parts()
        return _C.where(zero, -z, -_C.log1p(c * z) / c)

    def log_cdf(self, value):
        """The logarithm of the probability of at most `value`."""
        return _C.log1p(-_C.exp(self.log_survival_function(value)))

    def cdf(self, value):
        return _C.exp(self.log_cdf(value))

    def icdf(self, value):
        zero, c = self._parts()
        log = _C.log1p(-value)
        return _C.where(zero, self.loc - self.scale * log, self.loc + self.scale / c * _C.expm1(-c * log))

    @property
    def mean(self):
        c = self.concentration
        valid = c < 1
        safe = _C.where(valid, c, 0.5)
        return _C.where(valid, self.loc + self.scale / (1 - safe), _C.full_like(c, math.nan))

    @property
    def variance(self):
        c = self.concentration
        valid = c < 0.5
        safe = _C.where(valid, c, 0.25)
        return _C.where(valid, self.scale**2 / ((1 - safe) ** 2 * (1 - 2 * safe)), _C.full_like(c, math.nan))

    def entropy(self):
        return (_C.log(self.scale) + self.concentration + 1).expand(self._batch_shape)

    mode = property(lambda self: self.loc)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        end = self.loc - self.scale / self.concentration
        return constraints.interval(self.loc, _C.where(self.concentration < 0, end, _C.full_like(end, math.inf)))
