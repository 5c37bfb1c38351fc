"""torchjd: several losses at once, their gradients joined by aggregators."""
import torch
from torchjd import aggregation
from torchjd.autojac import jac_to_grad, mtl_backward

torch.manual_seed(0)
trunk = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.ReLU())
heads = [torch.nn.Linear(8, 1) for _ in range(3)]
x, y = torch.randn(16, 5), torch.randn(3, 16, 1)
parameters = [*trunk.parameters(), *(p for head in heads for p in head.parameters())]
for name in ("MGDA", "AlignedMTL", "PCGrad", "Mean", "Sum", "IMTLG", "TrimmedMean"):
    aggregator = getattr(aggregation, name)(*([1] if name == "TrimmedMean" else []))
    for p in parameters:
        p.grad = None
    shared = trunk(x)
    losses = [(head(shared) - target).square().mean() for head, target in zip(heads, y, strict=True)]
    mtl_backward(losses, shared)
    jac_to_grad(trunk.parameters(), aggregator)
    print(name, sum(p.grad.double().abs().sum().item() for p in parameters))
