"""gpytorch: exact regression by a Gaussian process, its hyperparameters fitted."""

import math

import gpytorch
import torch

torch.manual_seed(0)
x = torch.linspace(0, 1, 30)
y = torch.sin(x * 2 * math.pi) + torch.randn(30) * 0.1


class Process(gpytorch.models.ExactGP):
    def __init__(self, likelihood):
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


likelihood = gpytorch.likelihoods.GaussianLikelihood()
model = Process(likelihood).train()
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
marginal = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
for _ in range(20):
    optimizer.zero_grad()
    loss = -marginal(model(x), y)
    loss.backward()
    optimizer.step()
print(f"{loss.item():.4f}")
model.eval()
likelihood.eval()
with torch.no_grad():
    found = likelihood(model(torch.linspace(0, 1, 7)))
print([f"{v:.3f}" for v in found.mean.tolist() + found.variance.tolist()])
