"""The Dirichlet distribution."""

from .. import _C
from . import constraints
from .exp_family import ExponentialFamily


class Dirichlet(ExponentialFamily):
    """Probabilities with `concentration` for each class."""

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration, validate_args=None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        shape = concentration.shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        per = {"concentration": self.event_shape}
        return self._expanded(Dirichlet, batch_shape, _instance, ("concentration",), self.event_shape, per)

    def rsample(self, sample_shape=()):
        return _C._sample_dirichlet(self.concentration.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return (
            _C.xlogy(self.concentration - 1.0, value).sum(-1) + _C.lgamma(self.concentration.sum(-1))
            - _C.lgamma(self.concentration).sum(-1)
        )  # fmt: skip

    mean = property(lambda self: self.concentration / self.concentration.sum(-1, True))

    @property
    def mode(self):
        less = (self.concentration - 1).clamp(min=0.0)
        mode = less / less.sum(-1, True)
        flat = (self.concentration < 1).all(dim=-1)
        corner = _C.zeros_like(mode).scatter(-1, mode.argmax(dim=-1, keepdim=True), 1.0)
        return _C.where(flat.unsqueeze(-1), corner, mode)

    @property
    def variance(self):
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def entropy(self):
        k, a0 = self.concentration.size(-1), self.concentration.sum(-1)
        return (
            _C.lgamma(self.concentration).sum(-1) - _C.lgamma(a0) - (k - a0) * _C.digamma(a0)
            - ((self.concentration - 1.0) * _C.digamma(self.concentration)).sum(-1)
        )  # fmt: skip
