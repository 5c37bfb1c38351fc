"""torchdyn: neural differential equations; torchani: surroundings of atoms; adabelief and madgrad: optimizers."""

import torch
import torchani
from adabelief_pytorch import AdaBelief
from madgrad import MADGRAD, MirrorMADGRAD
from torch import nn
from torchdyn.core import NeuralODE

torch.manual_seed(0)
f = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))
for kind in ("autograd", "adjoint"):
    model = NeuralODE(f, sensitivity=kind, solver="dopri5", atol=1e-4, rtol=1e-4)
    _, path = model(torch.randn(4, 2), torch.linspace(0, 1, 5))
    loss = path[-1].square().mean()
    f.zero_grad()
    loss.backward()
    print(kind, loss.item(), sum(p.grad.double().abs().sum().item() for p in f.parameters()))
surroundings = torchani.aev.AEVComputer.like_1x()
kinds = torch.tensor([[3, 0, 0], [3, 0, 0]])
places = torch.tensor([[[0.0, 0, 0.12], [0, 0.75, -0.47], [0, -0.75, -0.47]]]).repeat(2, 1, 1)
places[1, :2, 1] += 0.1
places.requires_grad_()
values = surroundings(kinds, places)
net = nn.Sequential(nn.Linear(values.shape[-1], 16), nn.CELU(0.1), nn.Linear(16, 1))
energy = net(values).sum()
print(values.double().sum().item(), energy.item(), torch.autograd.grad(energy, places)[0].tolist())
for make in (lambda p: AdaBelief(p, lr=1e-2, eps=1e-12, print_change_log=False), MADGRAD, MirrorMADGRAD):
    net, x = nn.Linear(3, 2), torch.randn(8, 3)
    optimizer = make(net.parameters())
    for _ in range(6):
        loss = net(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(loss.item())
