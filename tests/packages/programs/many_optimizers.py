"""pytorch_optimizer: four steps of each of its optimizers that take no more than parameters and a rate."""
import copy

import torch
from pytorch_optimizer import get_supported_optimizers, load_optimizer

torch.manual_seed(0)
x, y = torch.randn(16, 4), torch.randn(16, 2)
start = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
ILL = {"alice", "lorarite", "soap", "splus"}  # eigenvectors of matrices that have hardly any
for name in sorted(set(get_supported_optimizers()) - ILL):
    net = copy.deepcopy(start)
    try:
        optimizer = load_optimizer(name)(net.parameters(), lr=1e-2)
        for _ in range(4):
            optimizer.zero_grad()
            (net(x) - y).square().mean().backward()
            optimizer.step()
    except Exception as error:  # it needs closures, names, a model or two groups
        print(name, type(error).__name__)
        continue
    print(name, (net(x) - y).square().mean().item())
