"""Reads digits: a convolutional network on scikit-learn's 1,797 scans of 8 x 8 grey levels.

    python examples/digits.py                  trains 12 epochs with a checkpoint after each, draws mistakes
    python examples/digits.py --resume         goes on after the last epoch that was completed
    python examples/digits.py --export F.nxm   writes the trained model; under Narthex examples/c/digits.c runs it

An ordinary PyTorch program: `narthex run examples/digits.py` runs it as it is.
"""

import argparse
from pathlib import Path

import show
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

CLASSES = 10


class Reader(nn.Module):
    """Two convolutions with batch norm, pooled once, then two linear layers."""

    def __init__(self, width=16):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, padding=1, bias=False),
            nn.BatchNorm2d(2 * width),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.head = nn.Sequential(nn.Dropout(0.25), nn.Linear(32 * width, 64), nn.ReLU(), nn.Linear(64, CLASSES))

    def forward(self, x):
        return self.head(self.features(x).flatten(1))


def load(held_out=360):
    """Pictures (n, 1, 8, 8) from 0 to 1 with their digits, shuffled once: for training, and held out."""
    digits = load_digits()
    x = torch.from_numpy(digits.images).float()[:, None] / 16
    y = torch.from_numpy(digits.target).long()
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    x, y = x[order], y[order]
    return TensorDataset(x[held_out:], y[held_out:]), TensorDataset(x[:held_out], y[:held_out])


def train_epoch(model, loader, optimizer):
    model.train()
    total = 0.0
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(x)
    return total / len(loader.dataset)


def evaluate(model, data):
    """The loss of held-out pictures, and how often each digit was taken for which."""
    model.eval()
    x, y = data.tensors
    with torch.no_grad():
        logits = model(x)
    counts = torch.zeros(CLASSES, CLASSES, dtype=torch.long)
    counts.index_put_((y, logits.argmax(1)), torch.ones_like(y), accumulate=True)
    return F.cross_entropy(logits, y).item(), counts


def export_model(model, path):
    """A graph for one picture, with the weights: logits (1, 10) of (1, 1, 8, 8). Under PyTorch it is an archive of its
    own."""
    model.eval()
    with torch.no_grad():
        program = torch.export.export(model, (torch.zeros(1, 1, 8, 8),))
    write = torch.model_file.save if hasattr(torch, "model_file") else torch.export.save
    write(program, path)


def read_options():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--out", type=Path, default=Path("build/digits"), help="folder of the checkpoint and the drawings")
    p.add_argument("--epochs", type=int, default=12)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--compile", action="store_true", help="train the compiled model")
    p.add_argument("--resume", action="store_true", help="go on from the checkpoint in --out")
    p.add_argument("--export", type=Path, help="write the trained model to this file")
    return p.parse_args()


def main():
    args = read_options()
    args.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(args.seed)
    trained_on, held_out = load()
    shuffled = torch.Generator().manual_seed(args.seed)
    loader = DataLoader(trained_on, batch_size=args.batch, shuffle=True, generator=shuffled)
    model = Reader()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs)
    running = torch.compile(model) if args.compile else model
    checkpoint, first, losses = args.out / "checkpoint.pt", 0, []
    if args.resume:
        state = torch.load(checkpoint)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        schedule.load_state_dict(state["schedule"])
        shuffled.set_state(state["shuffled"])
        torch.set_rng_state(state["random"])
        first, losses = state["epoch"], state["losses"]
    for epoch in range(first, args.epochs):
        loss = train_epoch(running, loader, optimizer)
        schedule.step()
        held, counts = evaluate(model, held_out)
        losses.append((loss, held))
        right = counts.diagonal().sum().item() / counts.sum().item()
        print(f"epoch {epoch + 1:2}: loss {loss:.4f}, held out {held:.4f}, {right:.1%} right", flush=True)
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "schedule": schedule.state_dict()}
        state |= {"epoch": epoch + 1, "losses": losses, "shuffled": shuffled.get_state()}
        torch.save(state | {"random": torch.get_rng_state()}, checkpoint)
    _, counts = evaluate(model, held_out)
    epochs = range(1, len(losses) + 1)
    lines = {name: (epochs, [pair[i] for pair in losses]) for i, name in enumerate(("training", "held out"))}
    show.curves(args.out / "losses.png", "loss", "epoch", lines)
    show.table(args.out / "confusion.png", "Digits that were held out", counts.tolist())
    if args.export:
        export_model(model, args.export)


if __name__ == "__main__":
    main()
