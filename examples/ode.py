"""A neural ordinary differential equation learns a spiral from places on it.

    python examples/ode.py --steps 300

Chen and others, "Neural Ordinary Differential Equations", 2018. The solver is the classical fourth-order method of
Runge and Kutta, and gradients go through its steps: hundreds of operators on few numbers, which is what compiling pays
for most.
"""

import argparse
from pathlib import Path

import show
import torch
from torch import nn


class Field(nn.Module):
    """How fast a place (n, 2) moves."""

    def __init__(self, width=32):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, 2))

    def forward(self, place):
        return self.layers(place**3)


def solve(field, place, n, seconds):
    """The n places after `place`, `seconds` between them: (n + 1, rows, 2)."""
    places = [place]
    for _ in range(n):
        a = field(place)
        b = field(place + seconds / 2 * a)
        c = field(place + seconds / 2 * b)
        d = field(place + seconds * c)
        place = place + seconds / 6 * (a + 2 * b + 2 * c + d)
        places.append(place)
    return torch.stack(places)


def spiral(n, seconds):
    """What is to be learned: two numbers whose cubes turn into each other and die away."""
    turn = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])
    return solve(lambda place: place**3 @ turn, torch.tensor([[2.0, 0.0]]), n, seconds)[:, 0]


def read_options():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--out", type=Path, default=Path("build/ode"), help="folder of the drawing")
    p.add_argument("--steps", type=int, default=300)
    p.add_argument("--ahead", type=int, default=10, help="places that one solution goes ahead")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--compile", action="store_true", help="solve by a compiled function")
    return p.parse_args()


def main():
    args = read_options()
    torch.manual_seed(args.seed)
    seconds, n = 0.025, 400
    true = spiral(n, seconds)
    field = Field()
    solved = torch.compile(solve) if args.compile else solve
    optimizer = torch.optim.RMSprop(field.parameters(), lr=2e-3)
    for step in range(1, args.steps + 1):
        start = torch.randint(0, n - args.ahead, (32,))
        wanted = true[start + torch.arange(args.ahead + 1)[:, None]]
        loss = (solved(field, true[start], args.ahead, seconds) - wanted).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % max(1, args.steps // 10) == 0:
            print(f"step {step:4}: {loss.item():.5f} apart", flush=True)
    with torch.no_grad():
        found = solve(field, true[:1], n, seconds)[:, 0]
    print(f"the whole path, from its beginning alone: {(found - true).abs().mean().item():.3f} apart")
    lines = {name: (path[:, 0].tolist(), path[:, 1].tolist()) for name, path in (("true", true), ("learned", found))}
    show.curves(args.out / "spiral.png", "a spiral", "first number", lines)


if __name__ == "__main__":
    main()
