"""Divergences of all pairs that PyTorch has, transforms to constraints, and errors of the less common distributions."""

import math

import narthex as nt
import numpy as np
import pytest
import torch
from test_distribution_classes import BOTH, row, same

KINDS = {
    "Bernoulli": lambda t, d: d.Bernoulli(row(t, 0.3, 0.9)),
    "Binomial": lambda t, d: d.Binomial(5, row(t, 0.3, 0.9)),
    "Beta": lambda t, d: d.Beta(row(t, 0.5, 3.0), row(t, 1.0, 2.0)),
    "Cauchy": lambda t, d: d.Cauchy(row(t, 0.5, -1.0), row(t, 1.0, 2.0)),
    "ContinuousBernoulli": lambda t, d: d.ContinuousBernoulli(row(t, 0.3, 0.9)),
    "Exponential": lambda t, d: d.Exponential(row(t, 0.5, 2.0)),
    "Gamma": lambda t, d: d.Gamma(row(t, 0.5, 3.0), row(t, 1.0, 2.0)),
    "Gumbel": lambda t, d: d.Gumbel(row(t, 0.5, -1.0), row(t, 1.0, 2.0)),
    "Laplace": lambda t, d: d.Laplace(row(t, 0.7, -1.0), row(t, 1.5, 2.0)),
    "LowRankMultivariateNormal": lambda t, d: d.LowRankMultivariateNormal(
        row(t, 0.5, -1.0), t.stack([row(t, 1.0), row(t, 0.5)]), row(t, 0.5, 1.0)
    ),
    "MultivariateNormal": lambda t, d: d.MultivariateNormal(
        row(t, 0.25, -1.5), t.stack([row(t, 2.0, 0.5), row(t, 0.5, 3.0)])
    ),
    "Normal": lambda t, d: d.Normal(row(t, 0.5, -1.0), row(t, 1.0, 2.0)),
    "Pareto": lambda t, d: d.Pareto(row(t, 0.5, 2.0), row(t, 1.5, 3.0)),
    "Poisson": lambda t, d: d.Poisson(row(t, 0.5, 7.0)),
    "Uniform": lambda t, d: d.Uniform(row(t, 0.25, 2.5), row(t, 0.75, 4.0)),
    "Uniform wide": lambda t, d: d.Uniform(row(t, -1.0, 0.5), row(t, 2.0, 0.75)),
}
PAIRS = [
    (p, q)
    for p in KINDS
    for q in KINDS
    if (type(KINDS[p](torch, torch.distributions)), type(KINDS[q](torch, torch.distributions)))
    in torch.distributions.kl._KL_REGISTRY
]


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_divergences(pair):
    found = [t.distributions.kl_divergence(*(KINDS[k](t, t.distributions) for k in pair)) for t in BOTH]
    same(found[1], found[0])


def test_nobody_is_left_out():
    theirs = {(p.__name__, q.__name__) for p, q in torch.distributions.kl._KL_REGISTRY}
    mine = {(p.__name__, q.__name__) for p, q in nt.distributions.kl._KL}
    assert theirs - mine == {("ExponentialFamily", "ExponentialFamily")}


CONSTRAINTS = {
    "real": lambda t, c: c.real,
    "positive": lambda t, c: c.positive,
    "nonnegative": lambda t, c: c.nonnegative,
    "greater_than": lambda t, c: c.greater_than(2.0),
    "less_than": lambda t, c: c.less_than(t.tensor(3.0)),
    "unit_interval": lambda t, c: c.unit_interval,
    "interval": lambda t, c: c.interval(-1.0, 3.0),
    "half_open_interval": lambda t, c: c.half_open_interval(t.tensor(0.0), 1.0),
    "simplex": lambda t, c: c.simplex,
    "corr_cholesky": lambda t, c: c.corr_cholesky,
    "lower_cholesky": lambda t, c: c.lower_cholesky,
    "positive_definite": lambda t, c: c.positive_definite,
    "positive_semidefinite": lambda t, c: c.positive_semidefinite,
    "independent": lambda t, c: c.independent(c.positive, 1),
    "cat": lambda t, c: c.cat([c.positive, c.real], -1, [1, 2]),
    "stack": lambda t, c: c.stack([c.positive, c.real, c.unit_interval], -1),
    "multinomial": lambda t, c: c.multinomial(3),
    "boolean": lambda t, c: c.boolean,
}


def outcome(call):
    try:
        return call()
    except Exception as error:
        return type(error).__name__, str(error)


@pytest.mark.parametrize("registry", ["biject_to", "transform_to"])
@pytest.mark.parametrize("name", CONSTRAINTS)
def test_transforms_to_constraints(registry, name):
    results = []
    for t in BOTH:
        d = t.distributions
        constraint = CONSTRAINTS[name](t, d.constraints)
        transform = outcome(lambda d=d, c=constraint: getattr(d, registry)(c))
        if isinstance(transform, tuple):
            results.append(transform)
            continue
        assert getattr(d.constraint_registry, registry) is getattr(d, registry)
        x = t.tensor([[0.3, -0.2, 0.7], [0.1, 0.9, -0.4], [0.2, 0.3, 1.5]], dtype=t.float64)
        y = transform(x)
        numbers = [y, transform.inv(y)]
        if transform.bijective:
            numbers.append(transform.log_abs_det_jacobian(x, y))
        results.append([repr(transform), *(n.numpy() for n in numbers)])
    assert len(results[0]) == len(results[1]) and results[0][0] == results[1][0]
    for theirs, mine in zip(results[0][1:], results[1][1:]):
        if isinstance(mine, str):
            assert mine == theirs
        else:
            np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-9)


def test_a_registry_of_ones_own():
    for t in BOTH:
        d = t.distributions
        registry = d.constraint_registry.ConstraintRegistry()
        registry.register(d.constraints.positive)(lambda c: d.ExpTransform())  # noqa: B023
        assert repr(registry(d.constraints.greater_than(1.0))) == "ExpTransform()"
        with pytest.raises(TypeError, match="Expected constraint to be either .* or instance, but got 3"):
            registry.register(3, print)
        with pytest.raises(NotImplementedError, match="Cannot transform _Real constraints"):
            registry(d.constraints.real)


CALLS = (
    lambda t, d: d.LKJCholesky(1),
    lambda t, d: repr(d.LKJCholesky(3)),
    lambda t, d: repr(d.LogisticNormal(0.0, 1.0).base_dist.batch_shape),
    lambda t, d: d.LowRankMultivariateNormal(t.zeros(()), t.ones(2, 1), t.ones(3)),
    lambda t, d: d.LowRankMultivariateNormal(t.zeros(3), t.ones(3), t.ones(3)),
    lambda t, d: d.LowRankMultivariateNormal(t.zeros(3), t.ones(2, 1), t.ones(3)),
    lambda t, d: d.LowRankMultivariateNormal(t.zeros(3), t.ones(3, 1), t.ones(2)),
    lambda t, d: d.LowRankMultivariateNormal(t.zeros(2, 3), t.ones(5, 3, 1), t.ones(3)),
    lambda t, d: d.ContinuousBernoulli(),
    lambda t, d: d.ContinuousBernoulli(t.tensor(1.5), validate_args=True),
    lambda t, d: repr(d.ContinuousBernoulli(0.5)),
    lambda t, d: d.VonMises(0.0, 0.0),
    lambda t, d: d.Wishart(t.tensor(4.0), t.eye(3), t.eye(3)),
    lambda t, d: d.Wishart(t.tensor(4.0), t.ones(3)),
    lambda t, d: d.Wishart(t.tensor(1.0), t.eye(3)),
    lambda t, d: repr(d.Wishart(4, t.eye(3))),
    lambda t, d: repr(d.GeneralizedPareto(0.0, 1.0, 0.5)),
    lambda t, d: d.Kumaraswamy(t.tensor([2.0, 0.5]), t.tensor([3.0, 2.0])).mode.tolist()[1:] != [1.0],
    lambda t, d: str(d.CorrCholeskyTransform().forward_shape(t.Size((2, 3)))),
    lambda t, d: d.CorrCholeskyTransform().forward_shape((4,)),
    lambda t, d: d.CorrCholeskyTransform().inverse_shape((4, 3)),
    lambda t, d: d.CorrCholeskyTransform().forward_shape(()),
    lambda t, d: repr(d.CumulativeDistributionTransform(d.Normal(0.0, 1.0)).domain),
    lambda t, d: d.CumulativeDistributionTransform(d.Normal(0.0, 1.0))(t.tensor([0.0])).tolist(),
    lambda t, d: d.utils.vec_to_tril_matrix(t.arange(3.0), -1).tolist(),
    lambda t, d: d.utils.vec_to_tril_matrix(t.arange(6.0).view(2, 3)).tolist(),
    lambda t, d: d.constraints.positive_definite.check(d.Wishart(9.0, t.eye(3)).sample((4,))).all().item(),
    lambda t, d: math.isnan(d.FisherSnedecor(1.0, 1.0).mean.item()),
)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("number", range(len(CALLS)))
def test_uses_and_errors(number):
    found = []
    for t in BOTH:
        t.distributions.Distribution.set_default_validate_args(True)
        found.append(outcome(lambda t=t: CALLS[number](t, t.distributions)))
    assert found[0] == found[1]


@pytest.mark.parametrize("name", ["Kumaraswamy", "ContinuousBernoulli", "LowRankMultivariateNormal"])
def test_gradients_of_draws(name):
    grads = []
    for t in BOTH:
        t.manual_seed(5)
        a, b = row(t, 0.5, 0.75), row(t, 1.0, 0.5)
        d = t.distributions
        made = {
            "Kumaraswamy": lambda: d.Kumaraswamy(a, b),  # noqa: B023
            "ContinuousBernoulli": lambda: d.ContinuousBernoulli(a),  # noqa: B023
            "LowRankMultivariateNormal": lambda: d.LowRankMultivariateNormal(a, b.view(2, 1), a.exp()),  # noqa: B023
        }[name]()
        draws = made.rsample((3,))
        (draws.square().sum() + made.log_prob(draws.detach()).sum()).backward()
        grads.append([a.grad] + ([b.grad] if b.grad is not None else []))
    for theirs, mine in zip(*grads, strict=True):
        same(mine, theirs)


def test_generalized_pareto():
    """In float32, the one type in which PyTorch's takes part."""
    found = []
    for t in BOTH:
        t.manual_seed(3)
        loc, scale, c = t.tensor([0.0, 1.0, 2.0, 1.0]), t.tensor([1.0, 2.0, 1.0, 1.0]), t.tensor([0.25, -0.5, 1.5, 0.0])
        made = t.distributions.GeneralizedPareto(loc, scale, c)
        draws = made.rsample((5,))
        numbers = [draws, made.log_prob(draws), made.cdf(draws), made.icdf(t.full((4,), 0.3)), made.mode]
        numbers += [made.entropy(), made.mean, made.variance, made.log_cdf(draws)]
        numbers.append(made.expand((2, 4)).log_prob(draws[:1]))
        found.append([repr(made), repr(made.support), *numbers])
    assert found[0][:2] == found[1][:2]
    for theirs, mine in zip(found[0][2:], found[1][2:], strict=True):
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-5, atol=1e-6)
