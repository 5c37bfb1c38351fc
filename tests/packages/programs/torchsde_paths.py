"""torchsde: a stochastic differential equation along one Brownian path, and its gradient."""

import torch
import torchsde


class Equation(torch.nn.Module):
    noise_type, sde_type = "diagonal", "ito"

    def __init__(self) -> None:
        super().__init__()
        self.drift, self.spread = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)

    def f(self, t, y):
        return self.drift(y)

    def g(self, t, y):
        return self.spread(y).sigmoid()


torch.manual_seed(0)
equation = Equation()
path = torchsde.BrownianInterval(t0=0.0, t1=1.0, size=(4, 3), entropy=7)
y = torchsde.sdeint(equation, torch.full((4, 3), 0.1), torch.linspace(0, 1, 5), bm=path, method="euler", dt=0.1)
y.sum().backward()
print(f"{y.sum().item():.4f} {equation.drift.weight.grad.norm().item():.4f}")
