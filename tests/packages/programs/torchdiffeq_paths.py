"""torchdiffeq: solvers, the adjoint method, events."""
import torch
from torchdiffeq import odeint, odeint_adjoint, odeint_event

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2)).double()
f = lambda t, y: net(y)  # noqa: E731


class Field(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = net

    def forward(self, t, y):
        return self.net(y) * torch.cos(t)


METHODS = ("dopri5", "dopri8", "bosh3", "adaptive_heun", "euler", "midpoint", "rk4", "explicit_adams", "implicit_adams")
y0, times = torch.tensor([1.0, 0.5], dtype=torch.float64), torch.linspace(0, 2, 5, dtype=torch.float64)
for method in METHODS:
    net.zero_grad()
    path = odeint(f, y0, times, method=method)
    path[-1].sum().backward()
    print(method, [round(v, 6) for v in path[-1].tolist()], f"{net[0].weight.grad.sum().item():.6f}")
net.zero_grad()
path = odeint_adjoint(Field(), y0, times)
path.pow(2).sum().backward()
print([round(v, 6) for v in path[-1].tolist()], f"{net[0].weight.grad.sum().item():.5f}")
fall = lambda t, s: (s[1], -torch.ones_like(s[1]) * 9.81)  # noqa: E731
state = (torch.tensor([10.0]), torch.tensor([0.0]))
t, ends = odeint_event(fall, state, torch.tensor(0.0), event_fn=lambda t, s: s[0].sum())
print(f"{t.item():.5f} {ends[1][-1].item():.4f}")
