"""auraloss and julius: losses, filters and bands of sounds; blitz and torchbnn: layers whose weights are distributions;
torch-pruning: channels that depend on each other are taken out together."""
import auraloss
import julius
import torch
import torch_pruning
import torchbnn
from blitz.modules import BayesianConv2d, BayesianLinear, BayesianLSTM
from blitz.utils import variational_estimator
from torch import nn


def total(tensors) -> float:
    return sum(t.detach().double().abs().sum().item() for t in tensors)


torch.manual_seed(3)
a, b = torch.randn(2, 1, 4096).double(), torch.randn(2, 1, 4096).double().requires_grad_()
for kind in (auraloss.freq.STFTLoss, auraloss.freq.MultiResolutionSTFTLoss, auraloss.time.ESRLoss, auraloss.time.DCLoss,
             auraloss.time.LogCoshLoss, auraloss.time.SNRLoss, auraloss.time.SISDRLoss, auraloss.time.SDSDRLoss):
    b.grad = None
    loss = kind()(b, a)
    loss.backward()
    print(kind.__name__, loss.item(), total([b.grad]))
a, filtered = a.float(), []
filtered += [julius.resample_frac(a, 44, 32), julius.lowpass_filter(a, 0.1), julius.bandpass_filter(a, 0.05, 0.2)]
print(total(filtered), total([julius.fft_conv1d(a, torch.randn(1, 1, 300))]), total(julius.split_bands(a, 16000, 4)))


@variational_estimator
class Regression(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = BayesianLinear(4, 8), BayesianLinear(8, 1)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


x, y = torch.randn(5, 4), torch.randn(5, 1)
net = Regression()
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for _ in range(3):
    optimizer.zero_grad()
    loss = net.sample_elbo(inputs=x, labels=y, criterion=nn.MSELoss(), sample_nbr=3)
    loss.backward()
    optimizer.step()
    print(loss.item())
for net, given in ((BayesianLSTM(3, 4), torch.randn(2, 5, 3)), (BayesianConv2d(3, 4, (3, 3)), torch.randn(2, 3, 8, 8))):
    out = net(given)
    out = out[0] if isinstance(out, tuple) else out
    out.square().mean().backward()
    print(total([out]), total(p.grad for p in net.parameters() if p.grad is not None))
net = nn.Sequential(torchbnn.BayesLinear(0, 0.1, 4, 8), nn.ReLU(), torchbnn.BayesLinear(0, 0.1, 8, 2))
loss = net(x).square().mean() + 0.01 * torchbnn.BKLLoss(reduction="mean")(net)
loss.backward()
print(loss.item(), total(p.grad for p in net.parameters() if p.grad is not None))


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.last = nn.Linear(8, 4)

    def forward(self, x):
        x = torch.relu(self.first(x))
        x = torch.relu(self.second(x) + x)
        return self.last(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1))


picture, kinds = torch.randn(2, 3, 8, 8), torch_pruning.importance
for importance in (kinds.GroupMagnitudeImportance(), kinds.GroupTaylorImportance(), kinds.LAMPImportance()):
    torch.manual_seed(0)
    net = Residual()
    net(picture).square().sum().backward()
    options = {"importance": importance, "pruning_ratio": 0.5, "ignored_layers": [net.last]}
    torch_pruning.pruner.MetaPruner(net, picture, **options).step()
    print(net, total([net(picture)]), torch_pruning.utils.count_ops_and_params(net, picture))
