"""pypose: rotations and poses, whose logarithms have gradients; a pose found by Levenberg-Marquardt; a filter."""

import pypose as pp
import torch
from torch import nn

torch.manual_seed(0)
x = pp.randn_SO3(3, requires_grad=True)
y = (x * pp.randn_SO3(3)).Log().sin().sum()
y.backward()
print(y.item(), x.grad.double().abs().sum().item(), x.matrix().detach().sum().item(), x.euler().detach().tolist())
poses = pp.randn_SE3(4)
points = torch.randn(4, 3)
print(poses.Act(points).tolist(), poses.Inv().Log().tensor().tolist())


class Inverse(nn.Module):
    def __init__(self):
        super().__init__()
        self.pose = pp.Parameter(pp.randn_SE3(2))

    def forward(self, given):
        return (self.pose @ given).Log().tensor()


given = pp.randn_SE3(2)
net = Inverse()
optimizer = pp.optim.LM(net, strategy=pp.optim.strategy.Adaptive(damping=1e-6))
for _ in range(4):
    print(round(optimizer.step(given).item(), 4))
print(pp.cumprod(pp.randn_SE3(5), dim=0).tensor().double().sum().item())
imu = pp.module.IMUPreintegrator(torch.zeros(3), pp.identity_SO3(), torch.zeros(3))
state = imu(dt=torch.full((1, 5, 1), 0.01), gyro=torch.randn(1, 5, 3), acc=torch.randn(1, 5, 3))
print({k: v.double().sum().item() for k, v in state.items() if torch.is_tensor(v)})
