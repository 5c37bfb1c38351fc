"""zuko: a neural spline flow trained on a condition, then drawn from."""

import torch
import zuko

torch.manual_seed(0)
flow = zuko.flows.NSF(features=3, context=2, transforms=2, hidden_features=(16, 16))
x, condition = torch.randn(32, 3), torch.randn(32, 2)
optimizer = torch.optim.Adam(flow.parameters(), lr=1e-3)
for _ in range(3):
    loss = -flow(condition).log_prob(x).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.5f}")
print([round(value, 4) for value in flow(condition[0]).sample((2,)).flatten().tolist()])
