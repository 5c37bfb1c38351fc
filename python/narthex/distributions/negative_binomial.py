"""The negative binomial distribution."""

from .. import _C
from ..autograd.grad_mode import no_grad
from . import constraints
from .distribution import Distribution
from .gamma import Gamma
from .utils import ProbsOrLogits, lazy_property


class NegativeBinomial(ProbsOrLogits, Distribution):
    """The number of successes of probability `probs` before `total_count` failures."""

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0), "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }  # fmt: skip
    support = constraints.nonnegative_integer

    def __init__(self, total_count, probs=None, logits=None, validate_args=None) -> None:
        (total_count,) = self._set_param(probs, logits, total_count)
        self.total_count = total_count.type_as(self._param)
        super().__init__(self._param.size(), validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        return self._expanded(NegativeBinomial, batch_shape, _instance, ("total_count",))

    @lazy_property
    def _gamma(self):
        return Gamma(concentration=self.total_count, rate=_C.exp(-self.logits), validate_args=False)

    mean = property(lambda self: self.total_count * _C.exp(self.logits))
    mode = property(lambda self: ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0))
    variance = property(lambda self: self.mean / _C.sigmoid(-self.logits))

    def sample(self, sample_shape=()):
        with no_grad():
            return _C.poisson(self._gamma.sample(sample_shape))

    def log_prob(self, value):
        from ..nn.functional import logsigmoid

        if self._validate_args:
            self._validate_sample(value)
        free = self.total_count * logsigmoid(-self.logits) + value * logsigmoid(self.logits)
        constant = -_C.lgamma(self.total_count + value) + _C.lgamma(1.0 + value) + _C.lgamma(self.total_count)
        return free - constant.masked_fill(self.total_count + value == 0.0, 0.0)
