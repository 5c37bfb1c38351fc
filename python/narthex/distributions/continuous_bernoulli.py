"""The continuous Bernoulli distribution."""

import math
from numbers import Number

from .. import _C
from . import constraints
from .exp_family import ExponentialFamily
from .utils import broadcast_all, clamp_probs, given_one, lazy_property, logits_to_probs, probs_to_logits


class ContinuousBernoulli(ExponentialFamily):
    """On [0, 1], with a density of probs^x (1 - probs)^(1 - x). Between the two `lims`, where the formulas divide by
    nearly nothing, series stand for them."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, probs=None, logits=None, lims=(0.499, 0.501), validate_args=None) -> None:
        given = given_one(probs, logits)
        (tensor,) = broadcast_all(given)
        if logits is None:
            if validate_args is not None and not self.arg_constraints["probs"].check(tensor).all():
                raise ValueError("The parameter probs has invalid values")
            tensor = self.probs = clamp_probs(tensor)
        else:
            self.logits = tensor
        self._param, self._lims = tensor, lims
        shape = _C.Size() if isinstance(given, Number) else tensor.size()
        super().__init__(shape, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new = self._expanded(ContinuousBernoulli, batch_shape, _instance, ("probs", "logits"))
        new._lims = self._lims
        new._param = new.__dict__["probs" if "probs" in new.__dict__ else "logits"]
        return new

    param_shape = property(lambda self: self._param.size())

    @lazy_property
    def logits(self):
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self):
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    def _outside(self):
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _cut_probs(self):
        return _C.where(self._outside(), self.probs, self._lims[0] * _C.ones_like(self.probs))

    def _cont_bern_log_norm(self):
        cut = self._cut_probs()
        below = _C.where(cut <= 0.5, cut, _C.zeros_like(cut))
        above = _C.where(cut >= 0.5, cut, _C.ones_like(cut))
        log_norm = _C.log(_C.abs(_C.log1p(-cut) - _C.log(cut))) - _C.where(
            cut <= 0.5, _C.log1p(-2.0 * below), _C.log(2.0 * above - 1.0)
        )
        x = (self.probs - 0.5).pow(2)
        return _C.where(self._outside(), log_norm, math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x)

    @property
    def mean(self):
        cut = self._cut_probs()
        means = cut / (2.0 * cut - 1.0) + 1.0 / (_C.log1p(-cut) - _C.log(cut))
        x = self.probs - 0.5
        return _C.where(self._outside(), means, 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x.pow(2)) * x)

    @property
    def variance(self):
        cut = self._cut_probs()
        variances = cut * (cut - 1.0) / (1.0 - 2.0 * cut).pow(2) + 1.0 / (_C.log1p(-cut) - _C.log(cut)).pow(2)
        x = (self.probs - 0.5).pow(2)
        return _C.where(self._outside(), variances, 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x)

    def rsample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        return self.icdf(_C.rand(shape, dtype=self.probs.dtype, device=self.probs.device))

    def log_prob(self, value):
        from ..nn.functional import binary_cross_entropy_with_logits

        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        loss = binary_cross_entropy_with_logits(logits, value, reduction="none")
        return self._cont_bern_log_norm() - loss

    def cdf(self, value):
        if self._validate_args:
            self._validate_sample(value)
        cut = self._cut_probs()
        cdfs = (cut.pow(value) * (1.0 - cut).pow(1.0 - value) + cut - 1.0) / (2.0 * cut - 1.0)
        free = _C.where(self._outside(), cdfs, value)
        return _C.where(value <= 0.0, _C.zeros_like(value), _C.where(value >= 1.0, _C.ones_like(value), free))

    def icdf(self, value):
        cut = self._cut_probs()
        inverse = _C.log1p(-cut + value * (2.0 * cut - 1.0)) - _C.log1p(-cut)
        return _C.where(self._outside(), inverse / (_C.log(cut) - _C.log1p(-cut)), value)

    def entropy(self):
        logs0, logs1 = _C.log1p(-self.probs), _C.log(self.probs)
        return self.mean * (logs0 - logs1) - self._cont_bern_log_norm() - logs0
