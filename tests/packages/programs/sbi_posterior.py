"""sbi: the posterior of a simulator's parameters, by flows, ratios and mixtures."""

import logging
import warnings

import torch

warnings.simplefilter("ignore")
logging.disable(logging.WARNING)

from sbi.inference import NLE, NPE, NRE  # noqa: E402
from sbi.neural_nets import classifier_nn, likelihood_nn, posterior_nn  # noqa: E402
from sbi.utils import BoxUniform  # noqa: E402

prior = BoxUniform(low=-2 * torch.ones(2), high=2 * torch.ones(2))
torch.manual_seed(0)
theta = prior.sample((120,))
x = theta + 0.3 * torch.randn_like(theta)
seen = torch.tensor([[0.5, -0.3]])
points = torch.tensor([[0.5, -0.3], [0.0, 0.0], [1.0, -1.0]])
for model in ("maf", "nsf", "mdn", "made"):
    torch.manual_seed(1)
    inference = NPE(
        prior, density_estimator=posterior_nn(model, hidden_features=8, num_transforms=2), show_progress_bars=False
    )
    inference.append_simulations(theta, x)
    estimator = inference.train(max_num_epochs=3, training_batch_size=20)
    posterior = inference.build_posterior(estimator)
    drawn = posterior.sample((50,), x=seen, show_progress_bars=False)
    print("NPE", model, [f"{v:.4f}" for v in posterior.log_prob(points, x=seen).tolist()],
          [f"{v:.4f}" for v in drawn.mean(0).tolist()])  # fmt: skip
for kind, build in ((NLE, likelihood_nn("maf", hidden_features=8, num_transforms=2)), (NRE, classifier_nn("linear"))):
    torch.manual_seed(2)
    named = {"density_estimator": build} if kind is NLE else {"classifier": build}
    inference = kind(prior, show_progress_bars=False, **named)
    estimator = inference.append_simulations(theta, x).train(max_num_epochs=3, training_batch_size=20)
    posterior = inference.build_posterior(estimator)
    potential = posterior.potential(points, x=seen)
    print(kind.__name__, [f"{v:.4f}" for v in (potential - potential.mean()).tolist()])
