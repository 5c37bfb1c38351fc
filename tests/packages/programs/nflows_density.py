"""nflows: a masked autoregressive spline flow is fitted to two moons and drawn from."""
import numpy as np
import torch
from nflows.distributions.normal import StandardNormal
from nflows.flows.base import Flow
from nflows.transforms.autoregressive import (
    MaskedAffineAutoregressiveTransform,
    MaskedPiecewiseRationalQuadraticAutoregressiveTransform,
)
from nflows.transforms.base import CompositeTransform
from nflows.transforms.lu import LULinear
from nflows.transforms.permutations import ReversePermutation

torch.manual_seed(0)
angle = torch.rand(64) * np.pi
x = torch.stack([angle.cos(), angle.sin()], -1) + 0.1 * torch.randn(64, 2)
parts = [ReversePermutation(2), MaskedAffineAutoregressiveTransform(2, 16), LULinear(2),
         MaskedPiecewiseRationalQuadraticAutoregressiveTransform(2, 16, num_bins=5, tails="linear", tail_bound=3.0)]
flow = Flow(CompositeTransform(parts), StandardNormal([2]))
optimizer = torch.optim.Adam(flow.parameters(), lr=1e-2)
for step in range(10):
    optimizer.zero_grad()
    loss = -flow.log_prob(x).mean()
    loss.backward()
    optimizer.step()
    if step % 3 == 0:
        print(f"{loss.item():.4f}")
with torch.no_grad():
    print([[round(v, 3) for v in row] for row in flow.sample(3).tolist()])
