"""Kullback-Leibler divergences: by the two classes, the closest pair that is registered."""

from __future__ import annotations

import math
from collections.abc import Callable

from .. import _C, linalg
from .bernoulli import Bernoulli
from .beta import Beta
from .binomial import Binomial
from .categorical import Categorical
from .dirichlet import Dirichlet
from .distribution import Distribution
from .exponential import Exponential
from .gamma import Gamma
from .geometric import Geometric
from .half_normal import HalfNormal
from .independent import Independent, sum_rightmost
from .laplace import Laplace
from .log_normal import LogNormal
from .multivariate_normal import MultivariateNormal, _squared_distance
from .normal import Normal
from .one_hot_categorical import OneHotCategorical
from .poisson import Poisson
from .transformed_distribution import TransformedDistribution
from .uniform import Uniform
from .utils import euler_constant

_KL: dict = {}
_found: dict = {}


def register_kl(type_p: type, type_q: type) -> Callable:
    """A decorator: `fn(p, q)` is the divergence of the two classes and of their subclasses."""
    for which in (type_p, type_q):
        if not isinstance(which, type):  # a class beside Distribution is taken as well, as PyTorch does
            raise TypeError(f"Expected type_p and type_q to be Distribution subclasses but got {which}")

    def register(fn: Callable) -> Callable:
        _KL[type_p, type_q] = fn
        _found.clear()
        return fn

    return register


def _dispatch(type_p: type, type_q: type) -> Callable | None:
    if (type_p, type_q) not in _found:
        fits = [pair for pair in _KL if issubclass(type_p, pair[0]) and issubclass(type_q, pair[1])]
        best = min(fits, key=lambda pair: (type_p.__mro__.index(pair[0]), type_q.__mro__.index(pair[1])), default=None)
        _found[type_p, type_q] = _KL.get(best)
    return _found[type_p, type_q]


def kl_divergence(p: Distribution, q: Distribution):
    """KL(p ‖ q) of each of the batch; NotImplementedError for a pair that nobody has registered."""
    fn = _dispatch(type(p), type(q))
    if fn is None:
        raise NotImplementedError(f"No KL(p || q) is implemented for p type {p.__class__.__name__} and q type "
                                  f"{q.__class__.__name__}")  # fmt: skip
    return fn(p, q)


def _infinite_like(x):
    return _C.full_like(x, math.inf)


@register_kl(Normal, Normal)
def _normals(p, q):
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(HalfNormal, HalfNormal)
def _half_normals(p, q):
    return _normals(p.base_dist, q.base_dist)


@register_kl(LogNormal, LogNormal)
def _log_normals(p, q):
    return _normals(p.base_dist, q.base_dist)


@register_kl(Bernoulli, Bernoulli)
def _bernoullis(p, q):
    from ..nn.functional import softplus

    both, none = p.probs, 1 - p.probs
    t1 = both * (softplus(-q.logits) - softplus(-p.logits))
    t1 = t1.masked_fill(q.probs == 0, math.inf).masked_fill(both == 0, 0)
    t2 = none * (softplus(q.logits) - softplus(p.logits))
    return t1 + t2.masked_fill(q.probs == 1, math.inf).masked_fill(both == 1, 0)


@register_kl(Binomial, Binomial)
def _binomials(p, q):
    kl = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    return _C.where(p.total_count > q.total_count, math.inf, kl)


@register_kl(Categorical, Categorical)
def _categoricals(p, q):
    t = p.probs * (p.logits - q.logits)
    t = t.masked_fill((q.probs == 0).expand_as(t), math.inf).masked_fill((p.probs == 0).expand_as(t), 0)
    return t.sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hots(p, q):
    return _categoricals(p._categorical, q._categorical)


@register_kl(Uniform, Uniform)
def _uniforms(p, q):
    result = ((q.high - q.low) / (p.high - p.low)).log()
    return result.masked_fill((q.low > p.low) | (q.high < p.high), math.inf)


@register_kl(Exponential, Exponential)
def _exponentials(p, q):
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(Laplace, Laplace)
def _laplaces(p, q):
    ratio, away = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + away / q.scale + ratio * (-away / p.scale).exp() - 1


@register_kl(Gamma, Gamma)
def _gammas(p, q):
    t1 = q.concentration * (p.rate / q.rate).log()
    t2 = _C.lgamma(q.concentration) - _C.lgamma(p.concentration)
    t3 = (p.concentration - q.concentration) * _C.digamma(p.concentration)
    return t1 + t2 + t3 + (q.rate - p.rate) * (p.concentration / p.rate)


@register_kl(Dirichlet, Dirichlet)
def _dirichlets(p, q):
    total_p, total_q = p.concentration.sum(-1), q.concentration.sum(-1)
    t1 = total_p.lgamma() - total_q.lgamma()
    t2 = (p.concentration.lgamma() - q.concentration.lgamma()).sum(-1)
    t4 = p.concentration.digamma() - total_p.digamma().unsqueeze(-1)
    return t1 - t2 + ((p.concentration - q.concentration) * t4).sum(-1)


@register_kl(Beta, Beta)
def _betas(p, q):
    return _dirichlets(p._dirichlet, q._dirichlet)


@register_kl(Poisson, Poisson)
def _poissons(p, q):
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Geometric, Geometric)
def _geometrics(p, q):
    return -p.entropy() - _C.log1p(-q.probs) / p.probs - q.logits


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normals(p, q):
    if p.event_shape != q.event_shape:
        raise ValueError("KL-divergence between two Multivariate Normals with                          different event "
                         "shapes cannot be computed")  # fmt: skip
    half = q._half_log_det() - p._half_log_det()
    solved = linalg.solve_triangular(*_same_batch(q._unbroadcasted_scale_tril, p._unbroadcasted_scale_tril),
                                        upper=False)  # fmt: skip
    trace = solved.pow(2).sum((-2, -1))
    distance = _squared_distance(q._unbroadcasted_scale_tril, q.loc - p.loc)
    return half + 0.5 * (trace + distance - p.event_shape[0])


def _same_batch(a, b) -> tuple:
    from ..functional import broadcast_tensors

    return tuple(broadcast_tensors(a, b))


@register_kl(Independent, Independent)
def _independents(p, q):
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p, q):
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Exponential, Gamma)
def _exponential_gamma(p, q):
    ratio = q.rate / p.rate
    t1 = -q.concentration * _C.log(ratio)
    return t1 + ratio + q.concentration.lgamma() + q.concentration * euler_constant - (1 + euler_constant)


@register_kl(Uniform, Normal)
def _uniform_normal(p, q):
    width = p.high - p.low
    t1 = (math.sqrt(math.pi * 2) * q.scale / width).log()
    t3 = ((p.high + p.low - 2 * q.loc) / 2).pow(2)
    return t1 + 0.5 * (width.pow(2) / 12 + t3) / q.scale.pow(2)


@register_kl(Normal, Uniform)
def _normal_uniform(p, q):
    return _infinite_like(p.loc)


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p, q):
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)
