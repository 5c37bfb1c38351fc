"""neuraloperator: Fourier neural operators, dense and factorized, that train."""
import warnings

import torch
from neuralop.losses import H1Loss, LpLoss
from neuralop.models import FNO, TFNO, UNO

warnings.filterwarnings("ignore")

torch.manual_seed(0)
for kind, options in ((FNO, {}), (TFNO, {"rank": 0.4, "factorization": "tucker"})):
    torch.manual_seed(0)
    net = kind(n_modes=(6, 6), in_channels=2, out_channels=1, hidden_channels=8, n_layers=2, **options)
    x, y = torch.randn(2, 2, 16, 16), torch.randn(2, 1, 16, 16)
    optimizer = torch.optim.AdamW(net.parameters(), 5e-3)
    for loss in (LpLoss(d=2, p=2), H1Loss(d=2)):
        value = loss(net(x), y)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        print(kind.__name__, f"{value.item():.5f}")
torch.manual_seed(0)
net = UNO(2, 1, hidden_channels=8, uno_out_channels=[8, 8, 8], uno_n_modes=[[4, 4]] * 3,
          uno_scalings=[[1.0, 1.0], [0.5, 0.5], [2.0, 2.0]], n_layers=3, channel_mlp_skip="linear")
print(f"{net(torch.randn(1, 2, 16, 16)).abs().sum().item():.4f}")
