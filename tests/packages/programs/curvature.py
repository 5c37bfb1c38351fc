"""curvlinops: products with Hessians, Fisher matrices and their inverses of a network and its data."""

import curvlinops
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).double()
data = [(torch.randn(5, 4).double(), torch.randint(0, 3, (5,))) for _ in range(2)]
parts = [p for p in net.parameters()]
v = torch.randn(sum(p.numel() for p in parts)).double()
for kind in ("Hessian", "GGN", "EF", "KFAC", "FisherMC", "EKFAC"):
    operator = getattr(curvlinops, f"{kind}LinearOperator")(net, nn.CrossEntropyLoss(), parts, data)
    print(kind, (operator @ v).sum().item(), (operator @ v).abs().sum().item())
    if kind == "KFAC":
        inverse = curvlinops.KFACInverseLinearOperator(operator, damping=0.1)
        print("inverse", (inverse @ v).abs().sum().item())
hessian = curvlinops.HessianLinearOperator(net, nn.CrossEntropyLoss(), parts, data)
jacobian = curvlinops.JacobianLinearOperator(net, parts, data)
print((jacobian @ v).abs().sum().item())
torch.manual_seed(1)
print(
    curvlinops.hutchinson_trace(hessian, num_matvecs=5).item(), curvlinops.hutchpp_trace(hessian, num_matvecs=6).item()
)
