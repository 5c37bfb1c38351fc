"""botorch: a Gaussian process is fitted, and acquisition functions choose where to look next."""
import warnings

import torch
from botorch.acquisition import LogExpectedImprovement, UpperConfidenceBound, qExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize, Standardize
from botorch.optim import optimize_acqf
from botorch.sampling import SobolQMCNormalSampler
from gpytorch.mlls import ExactMarginalLogLikelihood

warnings.simplefilter("ignore")
torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
x = torch.rand(9, 2)
f = lambda p: -((p - torch.tensor([0.3, 0.7])) ** 2).sum(-1, keepdim=True) + 0.1 * torch.sin(9 * p[..., :1])  # noqa: E731
y = f(x)
for _ in range(3):
    model = SingleTaskGP(x, y, input_transform=Normalize(2), outcome_transform=Standardize(1))
    mll = fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    posterior = model.posterior(torch.tensor([[0.5, 0.5], [0.1, 0.9]]))
    print(f"mean {posterior.mean.flatten().tolist()[0]:.3f} variance {posterior.variance.flatten().tolist()[0]:.2e}")
    best = y.max()
    values = [acq(torch.tensor([[[0.3, 0.6]]])).item() for acq in (
        LogExpectedImprovement(model, best), UpperConfidenceBound(model, 0.1))]
    print(" ".join(f"{v:.2f}" for v in values))
    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]])
    candidate, value = optimize_acqf(LogExpectedImprovement(model, best), bounds, 1, 4, 32)
    print([round(v, 2) for v in candidate[0].tolist()])
    x, y = torch.cat([x, candidate]), torch.cat([y, f(candidate)])
sampler = SobolQMCNormalSampler(torch.Size([32]), seed=1)
q = qExpectedImprovement(model, best, sampler)
print(f"{q(torch.tensor([[[0.2, 0.6], [0.4, 0.8]]])).item():.4f}")
