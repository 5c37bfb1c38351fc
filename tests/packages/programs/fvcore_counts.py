"""fvcore: operations and activations of a network, by operator and module."""
import logging
import warnings

import torch
from fvcore.nn import ActivationCountAnalysis, FlopCountAnalysis, flop_count_table, parameter_count
from torch import nn

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.bn = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.up, self.norm = nn.ConvTranspose2d(8, 4, 2, stride=2), nn.LayerNorm(4)
        self.q, self.head = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x):
        x = self.up(torch.relu(self.bn(self.conv(x))))
        x = self.norm(x.flatten(2).transpose(1, 2))
        q = self.q(x)
        a = torch.softmax(q @ x.transpose(-1, -2) / 2, -1)
        x = torch.einsum("bij,bjd->bid", a, x) + x[:, :1] * 2
        x[:, 0] = 1.0
        return self.head(x.mean(1)).split(1, 1)[0]


m, x = Block().eval(), torch.randn(2, 3, 6, 6)
for A in (FlopCountAnalysis, ActivationCountAnalysis):
    f = A(m, x)
    print(f.total(), sorted(f.by_operator().items()), sorted(f.by_module().items()), sorted(f.uncalled_modules()))
    print(sorted(f.unsupported_ops().items()))
print(flop_count_table(FlopCountAnalysis(m, x)))
print(parameter_count(m))
