"""torch.distributions: samples of the same seed, densities, moments, divergences and their gradients as PyTorch's."""

import subprocess
import sys

import narthex as nt
import numpy as np
import pytest
import torch

BOTH = [torch, nt]


def row(t, *numbers):
    return t.tensor(numbers, dtype=t.float64, requires_grad=True)


MADE = {
    "Normal": lambda t, d: d.Normal(row(t, 0.5, -1.0), row(t, 1.0, 2.0)),
    "LogNormal": lambda t, d: d.LogNormal(row(t, 0.5, -1.0), row(t, 1.0, 0.5)),
    "HalfNormal": lambda t, d: d.HalfNormal(row(t, 0.5, 2.0)),
    "Uniform": lambda t, d: d.Uniform(row(t, 0.5, -1.0), row(t, 1.0, 2.0)),
    "Bernoulli": lambda t, d: d.Bernoulli(row(t, 0.3, 0.9)),
    "Bernoulli logits": lambda t, d: d.Bernoulli(logits=row(t, 0.3, -0.9)),
    "Categorical": lambda t, d: d.Categorical(t.stack([row(t, 0.3, 0.2, 0.5), row(t, 1.0, 2.0, 3.0)])),
    "Categorical logits": lambda t, d: d.Categorical(logits=row(t, 0.3, -0.2, 0.5)),
    "OneHotCategorical": lambda t, d: d.OneHotCategorical(row(t, 0.3, 0.2, 0.5)),
    "Exponential": lambda t, d: d.Exponential(row(t, 0.5, 2.0)),
    "Laplace": lambda t, d: d.Laplace(row(t, 0.5, -1.0), row(t, 1.0, 2.0)),
    "Cauchy": lambda t, d: d.Cauchy(row(t, 0.5, -1.0), row(t, 1.0, 2.0)),
    "Gumbel": lambda t, d: d.Gumbel(row(t, 0.5, -1.0), row(t, 1.0, 2.0)),
    "Gamma": lambda t, d: d.Gamma(row(t, 0.5, 3.0), row(t, 1.0, 2.0)),
    "Chi2": lambda t, d: d.Chi2(row(t, 1.5, 3.0)),
    "Beta": lambda t, d: d.Beta(row(t, 0.5, 3.0), row(t, 1.0, 2.0)),
    "Dirichlet": lambda t, d: d.Dirichlet(row(t, 0.5, 3.0, 1.5)),
    "StudentT": lambda t, d: d.StudentT(row(t, 3.0, 5.0), row(t, 0.5, 0.0), row(t, 1.0, 2.0)),
    "NegativeBinomial": lambda t, d: d.NegativeBinomial(row(t, 3.0, 5.0), row(t, 0.3, 0.62)),
    "Binomial": lambda t, d: d.Binomial(5, row(t, 0.3, 0.6)),
    "Multinomial": lambda t, d: d.Multinomial(4, row(t, 0.3, 0.2, 0.5)),
    "HalfCauchy": lambda t, d: d.HalfCauchy(row(t, 0.5, 2.0)),
    "Pareto": lambda t, d: d.Pareto(row(t, 0.5, 2.0), row(t, 1.5, 3.0)),
    "Weibull": lambda t, d: d.Weibull(row(t, 0.5, 2.0), row(t, 1.5, 3.0)),
    "Poisson": lambda t, d: d.Poisson(row(t, 0.5, 7.0)),
    "Geometric": lambda t, d: d.Geometric(row(t, 0.3, 0.8)),
    "Independent": lambda t, d: d.Independent(d.Normal(row(t, 0.5, -1.0), row(t, 1.0, 2.0)), 1),
    "Transformed": lambda t, d: d.TransformedDistribution(
        d.Normal(row(t, 0.5, -1.0), row(t, 1.0, 2.0)), [d.AffineTransform(1.0, -2.0), d.TanhTransform(cache_size=1)]
    ),
    "Mixture": lambda t, d: d.MixtureSameFamily(
        d.Categorical(row(t, 0.4, 0.6)), d.Normal(row(t, 0.5, -1.0), row(t, 1.0, 2.0))
    ),
    "RelaxedBernoulli": lambda t, d: d.RelaxedBernoulli(row(t, 0.7), row(t, 0.3)),
    "RelaxedOneHotCategorical": lambda t, d: d.RelaxedOneHotCategorical(row(t, 0.7), row(t, 0.3, 0.5)),
    "MultivariateNormal": lambda t, d: d.MultivariateNormal(
        row(t, 0.5, -1.0), scale_tril=t.stack([row(t, 1.0, 0.0), row(t, 0.5, 2.0)])
    ),
    "ContinuousBernoulli": lambda t, d: d.ContinuousBernoulli(row(t, 0.3, 0.4999, 0.9)),
    "ContinuousBernoulli logits": lambda t, d: d.ContinuousBernoulli(logits=row(t, 0.3, -0.9)),
    "FisherSnedecor": lambda t, d: d.FisherSnedecor(row(t, 1.5, 3.0), row(t, 3.5, 5.0)),
    "InverseGamma": lambda t, d: d.InverseGamma(row(t, 0.5, 3.0), row(t, 1.0, 2.0)),
    "Kumaraswamy": lambda t, d: d.Kumaraswamy(row(t, 0.5, 3.0), row(t, 1.0, 2.0)),
    "LKJCholesky": lambda t, d: d.LKJCholesky(3, row(t, 0.7, 2.5)),
    "LogisticNormal": lambda t, d: d.LogisticNormal(row(t, 0.5, -1.0), row(t, 1.0, 0.5)),
    "LowRankMultivariateNormal": lambda t, d: d.LowRankMultivariateNormal(
        row(t, 0.5, -1.0, 2.0), t.stack([row(t, 1.0, 0.5), row(t, 0.5, 2.0), row(t, 0.2, -1.0)]), row(t, 0.5, 1.0, 2.0)
    ),
    "VonMises": lambda t, d: d.VonMises(row(t, 0.5, -1.0, 0.0), row(t, 1.0, 2.5, 8.0)),
    "Wishart": lambda t, d: d.Wishart(row(t, 4.5, 7.0), scale_tril=t.stack([row(t, 1.0, 0.0), row(t, 0.5, 2.0)])),
    "Wishart precision": lambda t, d: d.Wishart(5, precision_matrix=t.stack([row(t, 2.0, 0.5), row(t, 0.5, 3.0)])),
}


def same(a, b):
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-6, atol=1e-7)


def value_of(t, name, made):
    """A value in the support, the same on both sides."""
    shape = (*made[torch].batch_shape, *made[torch].event_shape)
    torch.manual_seed(7)
    value = MADE[name](torch, torch.distributions).sample((3,)) if shape is not None else None
    return value if t is torch else nt.tensor(value.tolist(), dtype=getattr(nt, str(value.dtype)[6:]))


@pytest.mark.parametrize("name", MADE)
def test_numbers(name):
    made = {t: MADE[name](t, t.distributions) for t in BOTH}
    mine, theirs = made[nt], made[torch]
    assert (tuple(mine.batch_shape), tuple(mine.event_shape)) == (tuple(theirs.batch_shape), tuple(theirs.event_shape))
    assert repr(mine.support) == repr(theirs.support) and mine.has_rsample == theirs.has_rsample
    if name not in ("Independent", "Transformed", "Mixture"):
        assert repr(mine) == repr(theirs)
    logs = [made[t].log_prob(value_of(t, name, made)) for t in BOTH]
    same(logs[1], logs[0])
    for what in ("mean", "variance", "mode", "stddev"):
        try:
            expected = getattr(theirs, what)
        except NotImplementedError:
            with pytest.raises(NotImplementedError):
                getattr(mine, what)
        else:
            same(getattr(mine, what), expected)
    for what in ("entropy", "enumerate_support"):
        try:
            expected = getattr(theirs, what)()
        except NotImplementedError:
            with pytest.raises(NotImplementedError):
                getattr(mine, what)()
        else:
            same(getattr(mine, what)(), expected)
    larger = (4, *theirs.batch_shape)
    same(mine.expand(larger).log_prob(value_of(nt, name, made)[:1]), theirs.expand(larger).log_prob(
        value_of(torch, name, made)[:1]))  # fmt: skip


@pytest.mark.parametrize("name", MADE)
def test_samples(name):
    drawn = []
    for t in BOTH:
        t.manual_seed(5)
        made = MADE[name](t, t.distributions)
        drawn.append([made.sample(), made.sample((2, 3)), *([made.rsample((3,))] if made.has_rsample else [])])
    for mine, theirs in zip(drawn[1], drawn[0], strict=True):
        assert mine.shape == theirs.shape
        same(mine, theirs)


@pytest.mark.parametrize(
    "name",
    ["Normal", "Laplace", "Gumbel", "LogNormal", "Transformed", "MultivariateNormal", "Gamma", "Beta", "Dirichlet",
     "StudentT", "Chi2"],
)  # fmt: skip
def test_gradients(name):
    grads = []
    for t in BOTH:
        t.manual_seed(5)
        leaves = []

        def keep(module, *numbers, leaves=leaves):
            leaves.append(module.tensor(numbers, dtype=module.float64, requires_grad=True))
            return leaves[-1]

        global row
        before, row = row, keep
        made = MADE[name](t, t.distributions)
        row = before
        made.rsample((2,)).square().sum().backward()
        grads.append([leaf.grad for leaf in leaves])
    # How gamma numbers change with their shapes PyTorch approximates.
    tolerance = 1e-2 if name in ("Gamma", "Beta", "Dirichlet", "StudentT", "Chi2") else 1e-6
    for mine, theirs in zip(grads[1], grads[0], strict=True):
        np.testing.assert_allclose(mine.detach().numpy(), theirs.detach().numpy(), rtol=tolerance, atol=tolerance)


PAIRS = [(name, name) for name in ("Normal", "LogNormal", "HalfNormal", "Bernoulli", "Categorical", "OneHotCategorical",
         "Exponential", "Laplace", "Gamma", "Beta", "Dirichlet", "Poisson", "Geometric", "Independent", "Uniform",
         "Binomial",
         "MultivariateNormal")] + [("Uniform", "Normal"), ("Normal", "Uniform"), ("Exponential", "Gamma")]  # fmt: skip


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_divergences(pair):
    found = []
    for t in BOTH:
        d = t.distributions
        p, q = MADE[pair[0]](t, d), MADE[pair[1]](t, d)
        found.append(d.kl_divergence(p, q))
    same(found[1], found[0])
    with pytest.raises(NotImplementedError, match="No KL"):
        nt.distributions.kl_divergence(MADE["Normal"](nt, nt.distributions), MADE["Bernoulli"](nt, nt.distributions))


def test_errors():
    said = []
    for t in BOTH:
        d, texts = t.distributions, []
        d.Distribution.set_default_validate_args(True)  # torch.compile turns it off for the whole process
        for call in (
            lambda d=d, t=t: d.Normal(t.zeros(2), t.tensor([1.0, -1.0])),
            lambda d=d, t=t: d.Bernoulli(t.tensor([0.5]), logits=t.tensor([0.5])),
            lambda d=d, t=t: d.Categorical(t.tensor(0.5)),
            lambda d=d, t=t: d.Uniform(t.ones(1), t.zeros(1)),
            lambda d=d, t=t: d.Normal(t.zeros(2), t.ones(2)).log_prob(t.ones(3)),
            lambda d=d, t=t: d.Bernoulli(t.tensor([0.5])).log_prob(t.tensor([2.0])),
            lambda d=d, t=t: d.Normal("a", 1.0),
            lambda d=d, t=t: d.Independent(d.Normal(t.zeros(2), t.ones(2)), 2),
            lambda d=d, t=t: d.MultivariateNormal(t.zeros(2)),
        ):
            with pytest.raises(ValueError) as error:
                call()
            texts.append(str(error.value))
        said.append(texts)
    assert said[0] == said[1]


TRANSFORMS = {
    "exp": lambda t, d: d.ExpTransform(), "power": lambda t, d: d.PowerTransform(t.tensor(2.0, dtype=t.float64)),
    "sigmoid": lambda t, d: d.SigmoidTransform(), "tanh": lambda t, d: d.TanhTransform(),
    "softplus": lambda t, d: d.SoftplusTransform(), "affine": lambda t, d: d.AffineTransform(1.0, 2.0),
    "stick": lambda t, d: d.StickBreakingTransform(),
    "compose": lambda t, d: d.ComposeTransform([d.AffineTransform(1.0, 2.0), d.StickBreakingTransform()]),
    "independent": lambda t, d: d.IndependentTransform(d.ExpTransform(), 1),
    "reshape": lambda t, d: d.ReshapeTransform((4,), (2, 2)),
    "stack": lambda t, d: d.StackTransform([d.ExpTransform(), d.TanhTransform()] * 2, -1),
    "cat": lambda t, d: d.CatTransform([d.ExpTransform(), d.TanhTransform()], -1, [1, 3]),
}  # fmt: skip


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name):
    values = []
    for t in BOTH:
        transform = TRANSFORMS[name](t, t.distributions)
        x = t.tensor([[0.1, 0.4, 0.2, 0.3], [0.5, 0.6, 0.9, 0.7]], dtype=t.float64)
        y = transform(x)
        values.append([y, transform.inv(y), transform.log_abs_det_jacobian(x, y), transform.inv.inv(x)])
        values[-1].append(repr(transform.domain) + repr(transform.codomain) if name not in ("stack", "cat") else "")
    for mine, theirs in zip(values[1][:-1], values[0][:-1], strict=True):
        same(mine, theirs)
    assert values[0][-1] == values[1][-1]


@pytest.mark.parametrize("alpha", [0.05, 0.3, 1.0, 2.5, 9.0, 60.0, 2000.0])
def test_gamma_slope_is_the_derivative(alpha):
    """Of the number at one place of the distribution: by differences of its inverse."""
    special = pytest.importorskip("scipy.special")
    for place in (0.02, 0.3, 0.5, 0.8, 0.98):
        step = 1e-5 * alpha
        x, up, down = (special.gammaincinv(a, place) for a in (alpha, alpha + step, alpha - step))
        slope = nt._C._standard_gamma_grad(nt.tensor(alpha, dtype=nt.float64), nt.tensor(x, dtype=nt.float64)).item()
        np.testing.assert_allclose(slope, (up - down) / (2 * step), rtol=2e-4, atol=1e-12)


@pytest.mark.parametrize("parameters", [(0.3, 0.7), (2.0, 3.0), (1.0, 8.0), (40.0, 5.0), (300.0, 500.0)])
def test_beta_slope_is_the_derivative(parameters):
    special = pytest.importorskip("scipy.special")
    a, b = parameters
    for place in (0.02, 0.3, 0.5, 0.8, 0.98):
        step = 1e-5 * a
        x, up, down = (special.betaincinv(c, b, place) for c in (a, a + step, a - step))
        given = (nt.tensor(value, dtype=nt.float64) for value in (x, a, a + b))
        slope = nt._C._dirichlet_grad(*given).item() * (1 - x)
        np.testing.assert_allclose(slope, (up - down) / (2 * step), rtol=2e-4, atol=1e-12)


def test_numbers_of_the_samplers():
    """Many of them, over small and large parameters: PyTorch's, one by one."""
    for kind in ("float32", "float64"):
        found = []
        for t in BOTH:
            t.manual_seed(11)
            dtype = getattr(t, kind)
            alpha = t.tensor([0.01, 0.5, 0.99, 1.0, 3.7, 40.0, 5000.0], dtype=dtype).repeat(300)
            count = t.tensor([1.0, 7.0, 30.0, 200.0, 5000.0], dtype=dtype).repeat(200)
            prob = t.tensor([0.001, 0.2, 0.5, 0.81], dtype=dtype).repeat(250)
            numbers = t._standard_gamma(alpha), t.binomial(count, prob), t._sample_dirichlet(alpha.view(-1, 7))
            found.append([x.tolist() for x in numbers])
        for theirs, mine in zip(*found, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-6)


CHECKS = """
look = lambda: torch.distributions.Distribution._validate_args
first = look() if early else None
torch.compile(lambda x: x, disable=True)
second = look() if early else None
f = torch.compile(lambda m, x: torch.distributions.Normal(m, 1.0).log_prob(x), backend="eager", fullgraph=True)
print(first, second, look(), f(torch.zeros(2), torch.ones(2)).tolist())
torch.distributions.Distribution.set_default_validate_args(True)
torch.compile(lambda x: x)
print(look())
"""


@pytest.mark.parametrize("early", [True, False])
def test_arguments_are_not_looked_at_once_a_function_is_compiled(early):
    said = [
        subprocess.run(
            [sys.executable, "-c", f"import {name} as torch; early = {early}{CHECKS}"],
            capture_output=True,
            text=True,
            check=True,
        )
        for name in ("narthex", "torch")
    ]
    assert said[0].stdout == said[1].stdout != ""
