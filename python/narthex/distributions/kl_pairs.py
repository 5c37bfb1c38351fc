"""Kullback-Leibler divergences of two different kinds, and of those kinds that few programs use."""

import math

from .. import _C
from .bernoulli import Bernoulli
from .beta import Beta
from .binomial import Binomial
from .cauchy import Cauchy
from .continuous_bernoulli import ContinuousBernoulli
from .exponential import Exponential
from .gamma import Gamma
from .gumbel import Gumbel
from .kl import register_kl
from .laplace import Laplace
from .lowrank_multivariate_normal import LowRankMultivariateNormal
from .multivariate_normal import MultivariateNormal
from .normal import Normal
from .pareto import Pareto
from .poisson import Poisson
from .uniform import Uniform
from .utils import euler_constant

# Pairs of which the first has values where the second has none, with the parameter whose shape the answer has.
_INFINITE = (
    (Beta, (Pareto,), "concentration1"),
    (ContinuousBernoulli, (Pareto,), "probs"),
    (Exponential, (Beta, ContinuousBernoulli, Pareto, Uniform), "rate"),
    (Gamma, (Beta, ContinuousBernoulli, Pareto, Uniform), "concentration"),
    (Gumbel, (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform), "loc"),
    (Laplace, (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform), "loc"),
    (Normal, (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto), "loc"),
    (Pareto, (Beta, ContinuousBernoulli, Uniform), "alpha"),
    (Poisson, (Bernoulli, Binomial), "rate"),
)


def _register_infinite() -> None:
    for p, qs, name in _INFINITE:
        for q in qs:
            register_kl(p, q)(lambda p, q, name=name: _C.full_like(getattr(p, name), math.inf))


_register_infinite()


def _x_log_x(x):
    return _C.xlogy(x, x)


def _against_normal(mean, variance, q):
    """The expectation of -log q."""
    return 0.5 * math.log(2 * math.pi) + q.scale.log() + (variance + (mean - q.loc).pow(2)) / (2 * q.scale.pow(2))


def _against_exponential(mean, q):
    return q.rate * mean - q.rate.log()


def _against_gamma(mean, mean_log, q):
    c = q.concentration
    return c.lgamma() - c * q.rate.log() - (c - 1) * mean_log + q.rate * mean


def _against_continuous_bernoulli(mean, q):
    return -mean * q.logits - (-q.probs).log1p() - q._cont_bern_log_norm()


@register_kl(Beta, ContinuousBernoulli)
def _beta_continuous_bernoulli(p, q):
    return _against_continuous_bernoulli(p.mean, q) - p.entropy()


@register_kl(Beta, Exponential)
def _beta_exponential(p, q):
    return _against_exponential(p.mean, q) - p.entropy()


@register_kl(Beta, Gamma)
def _beta_gamma(p, q):
    mean_log = p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
    return _against_gamma(p.mean, mean_log, q) - p.entropy()


@register_kl(ContinuousBernoulli, Normal)
@register_kl(Gamma, Normal)
@register_kl(Beta, Normal)
@register_kl(Exponential, Normal)
@register_kl(Gumbel, Normal)
@register_kl(Laplace, Normal)
def _normal_by_moments(p, q):
    return _against_normal(p.mean, p.variance, q) - p.entropy()


@register_kl(Beta, Uniform)
def _beta_uniform(p, q):
    result = (q.high - q.low).log() - p.entropy()
    return _C.where((q.low > 0) | (q.high < 1), math.inf, result)


@register_kl(Cauchy, Cauchy)
def _cauchys(p, q):
    return ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log() - (4 * p.scale * q.scale).log()


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoullis(p, q):
    own = p._cont_bern_log_norm() + (-p.probs).log1p()
    return p.mean * (p.logits - q.logits) + own - q._cont_bern_log_norm() - (-q.probs).log1p()


@register_kl(ContinuousBernoulli, Exponential)
@register_kl(Gamma, Exponential)
def _exponential_by_mean(p, q):
    return _against_exponential(p.mean, q) - p.entropy()


@register_kl(ContinuousBernoulli, Uniform)
def _continuous_bernoulli_uniform(p, q):
    result = (q.high - q.low).log() - p.entropy()
    return _C.where((q.low >= 0) | (q.high <= 1), math.inf, result)


@register_kl(Exponential, Gumbel)
def _exponential_gumbel(p, q):
    product, place = p.rate * q.scale, q.loc / q.scale
    return product.log() - 1 - place + place.exp() * product / (product + 1) + product.reciprocal()


@register_kl(Gamma, Gumbel)
def _gamma_gumbel(p, q):
    product, place, c = p.rate * q.scale, q.loc / q.scale, p.concentration
    t1 = (c - 1) * c.digamma() - c.lgamma() - c
    return t1 + product.log() + c / product + place.exp() * (1 + product.reciprocal()).pow(-c) - place


@register_kl(Gumbel, Gumbel)
def _gumbels(p, q):
    ratio, place_q, place_p = p.scale / q.scale, q.loc / q.scale, p.loc / q.scale
    t3 = (place_q + (1 + ratio).lgamma() - place_p).exp()
    return place_p - place_q - ratio.log() + ratio * euler_constant + t3 - (1 + euler_constant)


@register_kl(Normal, Gumbel)
def _normal_gumbel(p, q):
    away, spread = (p.loc - q.loc) / q.scale, (p.scale / q.scale).pow(2)
    return q.scale.log() + away + (0.5 * spread - away).exp() - p.entropy()


@register_kl(Normal, Laplace)
def _normal_laplace(p, q):
    away = (p.loc - q.loc) / p.scale
    distance = p.scale * (math.sqrt(2 / math.pi) * (-0.5 * away.pow(2)).exp() + away * (math.sqrt(0.5) * away).erf())
    return (2 * q.scale).log() + distance / q.scale - p.entropy()


@register_kl(Pareto, Exponential)
def _pareto_exponential(p, q):
    mean = p.alpha * p.scale / (p.alpha - 1)
    return (_against_exponential(mean, q) - p.entropy()).masked_fill(p.alpha <= 1, math.inf)


@register_kl(Pareto, Gamma)
def _pareto_gamma(p, q):
    mean = p.alpha * p.scale / (p.alpha - 1)
    result = _against_gamma(mean, p.scale.log() + p.alpha.reciprocal(), q) - p.entropy()
    return result.masked_fill(p.alpha <= 1, math.inf)


@register_kl(Pareto, Normal)
def _pareto_normal(p, q):
    unit = p.scale / (p.alpha - 1)
    result = _against_normal(p.alpha * unit, p.alpha * unit.pow(2) / (p.alpha - 2), q) - p.entropy()
    return result.masked_fill(p.alpha <= 2, math.inf)


@register_kl(Pareto, Pareto)
def _paretos(p, q):
    ratio = q.alpha / p.alpha
    result = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return result.masked_fill(p.scale < q.scale, math.inf)


def _mean_log(low, high):
    """The mean of log x between the two."""
    return (_x_log_x(high) - _x_log_x(low)) / (high - low) - 1


@register_kl(Uniform, Beta)
def _uniform_beta(p, q):
    a, b = q.concentration1, q.concentration0
    whole = a.lgamma() + b.lgamma() - (a + b).lgamma()
    t = (a - 1) * _mean_log(p.low, p.high) + (b - 1) * _mean_log(1 - p.high, 1 - p.low)
    result = whole - (p.high - p.low).log() - t
    return result.masked_fill((p.high > 1) | (p.low < 0), math.inf)


@register_kl(Uniform, ContinuousBernoulli)
def _uniform_continuous_bernoulli(p, q):
    result = _against_continuous_bernoulli(p.mean, q) - p.entropy()
    return _C.where((p.high >= 1) | (p.low <= 0), math.inf, result)


@register_kl(Uniform, Exponential)
def _uniform_exponential(p, q):
    result = q.rate * (p.high + p.low) / 2 - ((p.high - p.low) * q.rate).log()
    return result.masked_fill(p.low < 0, math.inf)


@register_kl(Uniform, Gamma)
def _uniform_gamma(p, q):
    result = _against_gamma(p.mean, _mean_log(p.low, p.high), q) - p.entropy()
    return result.masked_fill(p.low < 0, math.inf)


@register_kl(Uniform, Gumbel)
def _uniform_gumbel(p, q):
    width = q.scale / (p.high - p.low)
    high, low = (p.high - q.loc) / q.scale, (p.low - q.loc) / q.scale
    return width.log() + 0.5 * (high + low) - width * ((-high).exp() - (-low).exp())


@register_kl(Uniform, Pareto)
def _uniform_pareto(p, q):
    result = (q.alpha + 1) * _mean_log(p.low, p.high) - (q.alpha * q.scale.pow(q.alpha) * (p.high - p.low)).log()
    return result.masked_fill(p.low < q.scale, math.inf)


def _log_det(d):
    return d._log_det() if isinstance(d, LowRankMultivariateNormal) else 2 * d._half_log_det()


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _low_rank(p, q):
    if p.event_shape != q.event_shape:
        kinds = [type(d) is LowRankMultivariateNormal for d in (p, q)]
        which = "two Low Rank Multivariate Normals" if all(kinds) else "two (Low Rank) Multivariate Normals"
        raise ValueError(f"KL-divergence between {which} with different event shapes cannot be computed")
    precision, away = q.precision_matrix, q.loc - p.loc
    trace = (precision * p.covariance_matrix).sum((-2, -1))
    distance = (away.unsqueeze(-2) @ precision @ away.unsqueeze(-1)).squeeze(-1).squeeze(-1)
    return 0.5 * (_log_det(q) - _log_det(p) + trace + distance - p.event_shape[0])
