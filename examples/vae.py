"""A variational autoencoder of digits, and a walk through what it learned: pictures between one digit and another.

    python examples/vae.py --epochs 60

Kingma and Welling, "Auto-Encoding Variational Bayes", 2013. An ordinary PyTorch program.
"""

import argparse
from pathlib import Path

import show
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F


class Autoencoder(nn.Module):
    """64 grey levels to `code` normal numbers and back; 2 numbers are enough to look at."""

    def __init__(self, code=4, width=128):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, width), nn.GELU(), nn.Linear(width, 2 * code))
        self.decoder = nn.Sequential(nn.Linear(code, width), nn.GELU(), nn.Linear(width, 64))

    def forward(self, x):
        mean, log_variance = self.encoder(x).chunk(2, dim=1)
        drawn = mean + torch.exp(log_variance / 2) * torch.randn_like(mean)
        return self.decoder(drawn), mean, log_variance


def bound(logits, x, mean, log_variance):
    """What is minimised: how badly pictures come back, and how far codes are from standard normal numbers (nats)."""
    back = F.binary_cross_entropy_with_logits(logits, x, reduction="none").sum(1)
    apart = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(1)
    return (back + apart).mean(), apart.mean()


def walk(model, x, y, pairs, steps=8):
    """For each pair of digits, pictures on the straight line between the mean codes of the two."""
    with torch.no_grad():
        codes = model.encoder(x).chunk(2, dim=1)[0]
        middle = torch.stack([codes[y == digit].mean(0) for digit in range(10)])
        rows = []
        for a, b in pairs:
            between = torch.stack([torch.lerp(middle[a], middle[b], t) for t in torch.linspace(0, 1, steps)])
            rows.append(torch.sigmoid(model.decoder(between)).view(steps, 8, 8))
    return torch.stack(rows)


def read_options():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--out", type=Path, default=Path("build/vae"), help="folder of the drawings")
    p.add_argument("--epochs", type=int, default=60)
    p.add_argument("--batch", type=int, default=128)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--compile", action="store_true", help="train the compiled model")
    return p.parse_args()


def main():
    args = read_options()
    torch.manual_seed(args.seed)
    digits = load_digits()
    x = torch.tensor(digits.data, dtype=torch.float32) / 16
    y = torch.tensor(digits.target)
    model = Autoencoder()
    running = torch.compile(model) if args.compile else model
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    bounds = []
    for epoch in range(1, args.epochs + 1):
        total = 0.0
        for rows in torch.randperm(len(x)).split(args.batch):
            logits, mean, log_variance = running(x[rows])
            loss, apart = bound(logits, x[rows], mean, log_variance)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(rows)
        bounds.append(total / len(x))
        if epoch % max(1, args.epochs // 10) == 0:
            print(
                f"epoch {epoch:3}: {bounds[-1]:.3f} nats a picture, {apart.item():.3f} of them for the code", flush=True
            )
    show.curves(args.out / "bound.png", "nats a picture", "epoch", {"bound": (range(1, len(bounds) + 1), bounds)})
    pairs = ((0, 6), (1, 7), (3, 8), (4, 9))
    pictures = walk(model, x, y, pairs)
    show.images(args.out / "walk.png", "from one digit to another", pictures.tolist())


if __name__ == "__main__":
    main()
