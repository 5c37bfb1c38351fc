"""pytorch-crf, pytorch_msssim, torch_ema, torchinfo, thop and higher: small packages that much is built on."""

import higher
import torch
from pytorch_msssim import MS_SSIM, SSIM, ms_ssim
from thop import profile
from torch_ema import ExponentialMovingAverage
from torchcrf import CRF
from torchinfo import summary

torch.manual_seed(0)
crf, scores = CRF(5, batch_first=True), torch.randn(3, 7, 5, requires_grad=True)
tags, mask = torch.randint(0, 5, (3, 7)), torch.arange(7) < torch.tensor([7, 5, 3])[:, None]
for reduction in ("sum", "mean", "token_mean", "none"):
    print(reduction, crf(scores, tags, mask=mask, reduction=reduction).tolist())
(-crf(scores, tags, mask=mask)).backward()
print(scores.grad.double().abs().sum().item(), crf.transitions.grad.double().abs().sum().item())
print(crf.decode(scores, mask=mask))
a, b = torch.rand(2, 3, 176, 176), torch.rand(2, 3, 176, 176, requires_grad=True)
loss = 1 - SSIM(data_range=1)(a, b)
loss.backward()
print(loss.item(), b.grad.double().abs().sum().item(), MS_SSIM(data_range=1)(a, b).item())
print(ms_ssim(a, b, data_range=1, size_average=False).tolist())
layers = [torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten()]
net = torch.nn.Sequential(*layers, torch.nn.Linear(144, 2))
average, optimizer = ExponentialMovingAverage(net.parameters(), decay=0.9), torch.optim.SGD(net.parameters(), 0.1)
x = torch.randn(4, 3, 8, 8)
for _ in range(3):
    loss = net(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    average.update()
with average.average_parameters():
    print(net(x).square().mean().item())
columns = ("input_size", "output_size", "num_params", "kernel_size", "mult_adds")
print(summary(net, input_size=(4, 3, 8, 8), verbose=0, col_names=columns))
print(profile(net, (x,), verbose=False))
net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
x, y = torch.randn(8, 2), torch.randn(8, 1)
for name, options in {"SGD": {"lr": 0.1, "momentum": 0.9}, "Adam": {}, "RMSprop": {}, "Adadelta": {"lr": 0.5}}.items():
    inner = getattr(torch.optim, name)(net.parameters(), **options)
    with higher.innerloop_ctx(net, inner, copy_initial_weights=False) as (fast, steps):
        for _ in range(3):
            steps.step((fast(x) - y).square().mean())
        loss = (fast(x) - y).square().mean()
        grads = torch.autograd.grad(loss, net.parameters())
    print(name, loss.item(), sum(grad.double().abs().sum().item() for grad in grads))
