"""opacus and backpack: gradients of each sample and curvature, by hooks and by torch.func; private training."""
import torch
from backpack import backpack, extend, extensions
from opacus import PrivacyEngine
from opacus.grad_sample import GradSampleModule
from opacus.layers import DPLSTM
from opacus.validators import ModuleValidator
from torch import nn
from torch.nn import functional


def total(tensors) -> float:
    return sum(t.detach().double().abs().sum().item() for t in tensors)


for functorch in (False, True):
    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 4, 3), nn.ReLU(), nn.GroupNorm(2, 4), nn.Flatten(), nn.Linear(144, 3)]
    net = GradSampleModule(nn.Sequential(*layers), force_functorch=functorch)
    x, y = torch.randn(5, 1, 8, 8), torch.randint(0, 3, (5,))
    functional.cross_entropy(net(x), y).backward()
    print(total(p.grad_sample for p in net.parameters()), total(p.grad for p in net.parameters()))
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
rows = torch.utils.data.TensorDataset(torch.randn(32, 6), torch.randint(0, 3, (32,)))
loader, optimizer = torch.utils.data.DataLoader(rows, batch_size=8), torch.optim.SGD(net.parameters(), 0.1)
engine = PrivacyEngine(accountant="rdp")
net, optimizer, loader = engine.make_private(
    module=net, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0
)
for x, y in loader:
    optimizer.zero_grad()
    loss = functional.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
    print(len(x), loss.item())
print(engine.get_epsilon(1e-5), total(net.parameters()))
recurrent = GradSampleModule(nn.Sequential(nn.Embedding(10, 4), DPLSTM(4, 5, batch_first=True)))
recurrent(torch.randint(0, 10, (3, 6)))[0].square().sum().backward()
print(total(p.grad_sample for p in recurrent.parameters()))
print([type(error).__name__ for error in ModuleValidator.validate(nn.Sequential(nn.BatchNorm2d(3)))])
print(ModuleValidator.fix(nn.Sequential(nn.BatchNorm2d(3))))
torch.manual_seed(0)
layers = [nn.Conv2d(1, 2, 3), nn.Sigmoid(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(18, 3)]
net, criterion = extend(nn.Sequential(*layers)), extend(nn.CrossEntropyLoss())
x, y = torch.randn(4, 1, 8, 8), torch.randint(0, 3, (4,))
for name in ("BatchGrad", "BatchL2Grad", "SumGradSquared", "Variance", "DiagGGNExact", "DiagGGNMC", "KFAC", "KFLR",
             "DiagHessian", "SqrtGGNExact"):
    torch.manual_seed(0)
    extension = getattr(extensions, name)()
    net.zero_grad()
    with backpack(extension):
        criterion(net(x), y).backward()
    found = [getattr(p, extension.savefield) for p in net.parameters()]
    print(name, total(t for each in found for t in (each if isinstance(each, list) else [each])))
