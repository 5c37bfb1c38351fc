"""Balances a pole on a cart by policy gradients (REINFORCE); the physics are written in numpy below.

    python examples/pole.py --rounds 60

Barto, Sutton and Anderson, "Neuronlike adaptive elements that can solve difficult learning control problems", 1983;
Williams, "Simple statistical gradient-following algorithms", 1992. An ordinary PyTorch program of many small calls.
"""

import argparse
from pathlib import Path

import numpy as np
import show
import torch
from torch import nn
from torch.distributions import Categorical

GRAVITY, CART, POLE, HALF_LENGTH, FORCE, SECONDS = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
LEAVES, FALLS = 2.4, 12 * np.pi / 180


class Carts:
    """Several carts at once: place, speed, angle (radians from upright) and angular speed of each, shape (n, 4)."""

    def __init__(self, n, seed):
        self.random = np.random.default_rng(seed)
        self.state = self.random.uniform(-0.05, 0.05, (n, 4))

    def push(self, right):
        """Pushes each cart to the right (1) or the left (0) for a fiftieth of a second; which still stand."""
        x, speed, angle, turning = self.state.T
        force = np.where(right == 1, FORCE, -FORCE)
        sine, cosine = np.sin(angle), np.cos(angle)
        pull = (force + POLE * HALF_LENGTH * turning**2 * sine) / (CART + POLE)
        angular = (GRAVITY * sine - cosine * pull) / (HALF_LENGTH * (4 / 3 - POLE * cosine**2 / (CART + POLE)))
        linear = pull - POLE * HALF_LENGTH * angular * cosine / (CART + POLE)
        change = np.stack((speed, linear, turning, angular), axis=1)
        self.state = self.state + SECONDS * change
        return (np.abs(self.state[:, 0]) < LEAVES) & (np.abs(self.state[:, 2]) < FALLS)


def play(policy, n, seed, longest):
    """n carts until each fell or `longest` pushes are over: the logarithm of each choice's chance, which counted."""
    carts, alive = Carts(n, seed), np.ones(n, dtype=bool)
    chances, counted = [], []
    while alive.any() and len(chances) < longest:
        choice = Categorical(logits=policy(torch.from_numpy(carts.state).float()))
        right = choice.sample()
        chances.append(choice.log_prob(right))
        counted.append(alive.copy())
        alive &= carts.push(right.numpy())
    return torch.stack(chances), torch.from_numpy(np.stack(counted)).float()


def read_options():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--out", type=Path, default=Path("build/pole"), help="folder of the drawing")
    p.add_argument("--rounds", type=int, default=60)
    p.add_argument("--carts", type=int, default=16)
    p.add_argument("--longest", type=int, default=300, help="pushes at most")
    p.add_argument("--seed", type=int, default=0)
    return p.parse_args()


def main():
    args = read_options()
    torch.manual_seed(args.seed)
    policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))
    optimizer = torch.optim.Adam(policy.parameters(), lr=2e-2)
    stood = []
    for number in range(1, args.rounds + 1):
        chances, counted = play(policy, args.carts, args.seed + number, args.longest)
        ahead = counted.flip(0).cumsum(0).flip(0)  # pushes that were still to come
        better = (ahead - (ahead * counted).sum() / counted.sum()) / args.longest
        loss = -(chances * better * counted).sum() / args.carts
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        stood.append(counted.sum(0).mean().item())
        if number % max(1, args.rounds // 10) == 0:
            print(f"round {number:3}: the poles stood for {stood[-1]:.1f} pushes", flush=True)
    show.curves(
        args.out / "pole.png", "pushes until the pole fell", "round", {"mean": (range(1, len(stood) + 1), stood)}
    )


if __name__ == "__main__":
    main()
