"""The gamma distribution."""

from .. import _C
from .._type_info import finfo
from . import constraints
from .exp_family import ExponentialFamily
from .utils import batch_shape_of, broadcast_all


class Gamma(ExponentialFamily):
    """With shape `concentration` and `rate`."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, concentration, rate, validate_args=None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(batch_shape_of(self.concentration, concentration, rate), validate_args=validate_args)

    mean = property(lambda self: self.concentration / self.rate)
    mode = property(lambda self: ((self.concentration - 1) / self.rate).clamp(min=0))
    variance = property(lambda self: self.concentration / self.rate.pow(2))

    def expand(self, batch_shape, _instance=None):
        return self._expanded(Gamma, batch_shape, _instance, ("concentration", "rate"))

    def rsample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        value = _C._standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)
        value.detach().clamp_(min=finfo(value.dtype).tiny)
        return value

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return (
            _C.xlogy(self.concentration, self.rate) + _C.xlogy(self.concentration - 1, value)
            - self.rate * value - _C.lgamma(self.concentration)
        )  # fmt: skip

    def entropy(self):
        return (
            self.concentration - _C.log(self.rate) + _C.lgamma(self.concentration)
            + (1.0 - self.concentration) * _C.digamma(self.concentration)
        )  # fmt: skip
