"""laplace: how sure a trained network is, by the curvature around its weights."""

import torch

library = torch.library.Library("torchvision", "DEF")  # as in torchvision_pictures.py
for name in ("nms", "qnms"):
    library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
from laplace import Laplace  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

torch.manual_seed(0)
x = torch.linspace(-2, 2, 40).unsqueeze(1)
y = x.sin() + 0.1 * torch.randn(40, 1)
net = nn.Sequential(nn.Linear(1, 10), nn.Tanh(), nn.Linear(10, 1))
optimizer = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(30):
    loss = (net(x) - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
for hessian in ("full", "kron", "diag"):
    la = Laplace(net, "regression", subset_of_weights="all", hessian_structure=hessian)
    la.fit(DataLoader(TensorDataset(x, y), 10))
    print(hessian, la.log_marginal_likelihood().item())
    la.optimize_prior_precision(method="marglik", n_steps=5)
    mean, variance = la(x[::10])
    print(mean.flatten().tolist(), variance.flatten().tolist(), la.prior_precision.flatten().tolist())
labels = (y[:, 0] > 0).long()
net = nn.Sequential(nn.Linear(1, 8), nn.ReLU(), nn.Linear(8, 2))
la = Laplace(net, "classification", subset_of_weights="last_layer", hessian_structure="kron")
la.fit(DataLoader(TensorDataset(x, labels), 10))
print(la(x[::10], link_approx="probit").tolist())
