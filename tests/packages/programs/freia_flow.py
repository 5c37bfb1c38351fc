"""FrEIA: invertible networks that learn two moons, forward and back."""

import FrEIA.framework as framework
import FrEIA.modules as modules
import numpy
import torch
from sklearn.datasets import make_moons
from torch import nn

torch.manual_seed(0), numpy.random.seed(0)


def subnet(n_in, n_out):
    return nn.Sequential(nn.Linear(n_in, 32), nn.ReLU(), nn.Linear(32, n_out))


flow = framework.SequenceINN(2)
for kind in (
    modules.AllInOneBlock,
    modules.RNVPCouplingBlock,
    modules.GLOWCouplingBlock,
    modules.GINCouplingBlock,
    modules.HouseholderPerm,
):
    options = (
        {"permute_soft": True}
        if kind is modules.AllInOneBlock
        else {"n_reflections": 2}
        if kind is modules.HouseholderPerm
        else {}
    )
    flow.append(kind, **({} if kind is modules.HouseholderPerm else {"subnet_constructor": subnet}), **options)
optimizer = torch.optim.Adam(flow.parameters(), 1e-3)
points = torch.tensor(make_moons(64, noise=0.05, random_state=0)[0], dtype=torch.float32)
for _ in range(4):
    z, log_jac = flow(points)
    loss = (z.square().sum(1) / 2 - log_jac).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
back, _ = flow(flow(points)[0], rev=True)
print((back - points).abs().max().item() < 1e-3)
nodes = [framework.InputNode(3, 8, 8, name="in")]
nodes.append(framework.Node(nodes[-1], modules.IRevNetDownsampling, {}))
nodes.append(
    framework.Node(
        nodes[-1],
        modules.GLOWCouplingBlock,
        {"subnet_constructor": lambda i, o: nn.Conv2d(i, o, 3, padding=1), "clamp": 1.0},
    )
)
nodes.append(framework.Node(nodes[-1], modules.ActNorm, {}))
nodes.append(framework.Node(nodes[-1], modules.Flatten, {}))
nodes.append(framework.OutputNode(nodes[-1]))
graph = framework.GraphINN(nodes)
z, jac = graph(torch.randn(2, 3, 8, 8))
print(z.double().abs().sum().item(), jac.tolist())
