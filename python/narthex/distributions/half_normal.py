"""The distance of a normal variable from 0."""

import math

from .. import _C
from . import constraints
from .distribution import Distribution
from .normal import Normal


class HalfNormal(Distribution):
    """|x| of a normal x with mean 0 and standard deviation `scale`."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, scale, validate_args=None) -> None:
        self.base_dist = Normal(0, scale, validate_args=False)
        super().__init__(self.base_dist.batch_shape, validate_args=validate_args)

    scale = property(lambda self: self.base_dist.scale)
    mean = property(lambda self: self.scale * math.sqrt(2 / math.pi))
    mode = property(lambda self: _C.zeros_like(self.scale))
    variance = property(lambda self: self.scale.pow(2) * (1 - 2 / math.pi))

    def expand(self, batch_shape, _instance=None):
        new = self._expanded(HalfNormal, batch_shape, _instance, ())
        new.base_dist = self.base_dist.expand(batch_shape)
        return new

    def rsample(self, sample_shape=()):
        return self.base_dist.rsample(sample_shape).abs()

    def sample(self, sample_shape=()):
        return super().sample(sample_shape)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        log_prob = self.base_dist.log_prob(value) + math.log(2)
        return _C.where(value >= 0, log_prob, -math.inf)

    def cdf(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, prob):
        return self.base_dist.icdf((prob + 1) / 2)

    def entropy(self):
        return self.base_dist.entropy() - math.log(2)
