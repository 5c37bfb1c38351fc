"""pyro: a line fitted by stochastic variational inference, then by the no-U-turn sampler."""

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import MCMC, NUTS, SVI, Trace_ELBO
from pyro.infer.autoguide import AutoNormal

pyro.set_rng_seed(0)
x = torch.linspace(-1, 1, 20)
y = 2 * x + 1 + 0.1 * torch.randn(20)


def model(x, y):
    slope = pyro.sample("slope", dist.Normal(0.0, 5.0))
    start = pyro.sample("start", dist.Normal(0.0, 5.0))
    noise = pyro.sample("noise", dist.LogNormal(0.0, 1.0))
    with pyro.plate("points", 20):
        pyro.sample("seen", dist.Normal(slope * x + start, noise), obs=y)


svi = SVI(model, AutoNormal(model), pyro.optim.Adam({"lr": 0.05}), Trace_ELBO())
for _ in range(5):
    print(f"{svi.step(x, y):.3f}")
sampler = MCMC(NUTS(model), num_samples=5, warmup_steps=5, disable_progbar=True)
sampler.run(x, y)
print(f"{sampler.get_samples()['slope'].mean().item():.3f}")
