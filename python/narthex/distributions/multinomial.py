"""The multinomial distribution."""

from .. import _C
from . import constraints
from .binomial import Binomial
from .categorical import Categorical
from .distribution import Distribution
from .utils import broadcast_all


class Multinomial(Distribution):
    """How often each class came among `total_count` draws."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}

    def __init__(self, total_count: int = 1, probs=None, logits=None, validate_args=None) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._categorical = Categorical(probs=probs, logits=logits)
        self._binomial = Binomial(total_count=total_count, probs=self.probs)
        shape = self._categorical.param_shape
        super().__init__(self._categorical.batch_shape, shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new = self._expanded(Multinomial, batch_shape, _instance, (), self.event_shape)
        new.total_count, new._categorical = self.total_count, self._categorical.expand(batch_shape)
        new._binomial = Binomial(total_count=self.total_count, probs=new._categorical.probs)
        return new

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self):
        return constraints.multinomial(self.total_count)

    probs = property(lambda self: self._categorical.probs)
    logits = property(lambda self: self._categorical.logits)
    param_shape = property(lambda self: self._categorical.param_shape)
    mean = property(lambda self: self.probs * self.total_count)
    variance = property(lambda self: self.total_count * self.probs * (1 - self.probs))

    def sample(self, sample_shape=()):
        drawn = self._categorical.sample(_C.Size((self.total_count, *sample_shape)))
        last = drawn.permute(*range(1, drawn.dim()), 0)
        counts = last.new_zeros(self._extended_shape(sample_shape)).scatter_add(-1, last, _C.ones_like(last))
        return counts.type_as(self.probs)

    def entropy(self):
        n = _C.tensor(self.total_count)
        support = self._binomial.enumerate_support(expand=False)[1:]
        weights = _C.exp(self._binomial.log_prob(support))
        weight = (weights * _C.lgamma(support + 1)).sum([0, -1])
        return n * self._categorical.entropy() - _C.lgamma(n + 1) + weight

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        ways = _C.lgamma(value.sum(-1) + 1) - _C.lgamma(value + 1).sum(-1)
        logits = logits.masked_fill((value == 0) & (logits == -float("inf")), 0)
        return ways + (logits * value).sum(-1)
