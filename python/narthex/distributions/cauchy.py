"""The Cauchy distribution."""

import math

from .. import _C
from . import constraints
from .distribution import Distribution
from .utils import batch_shape_of, broadcast_all


class Cauchy(Distribution):
    """With median `loc` and half width at half height `scale`."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc, scale, validate_args=None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(batch_shape_of(self.loc, loc, scale), validate_args=validate_args)

    def _full(self, number: float):
        return _C.full(self._extended_shape(), number, dtype=self.loc.dtype, device=self.loc.device)

    mean = property(lambda self: self._full(math.nan))
    mode = property(lambda self: self.loc)
    variance = property(lambda self: self._full(math.inf))

    def expand(self, batch_shape, _instance=None):
        return self._expanded(Cauchy, batch_shape, _instance, ("loc", "scale"))

    def rsample(self, sample_shape=()):
        eps = self.loc.new_empty(self._extended_shape(sample_shape)).cauchy_()
        return self.loc + eps * self.scale

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return -math.log(math.pi) - self.scale.log() - ((value - self.loc) / self.scale).pow(2).log1p()

    def cdf(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return _C.atan((value - self.loc) / self.scale) / math.pi + 0.5

    def icdf(self, value):
        return _C.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self):
        return math.log(4 * math.pi) + self.scale.log()
