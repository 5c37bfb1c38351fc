"""Foretells a time series with an LSTM: months of a made-up demand with a trend, a year and noise.

    python examples/series.py --steps 400

Trained on the first nine tenths; then it goes on by itself, each value from those that it foretold, beside what came.
"""

import argparse
import math
from pathlib import Path

import show
import torch
from torch import nn

YEAR = 12


class Forecaster(nn.Module):
    """An LSTM over the values so far and the month; what the next value differs by from this one."""

    def __init__(self, width=48):
        super().__init__()
        self.lstm = nn.LSTM(3, width, num_layers=2, batch_first=True)
        self.head = nn.Linear(width, 1)

    def forward(self, values, months, state=None):
        angle = months * (2 * math.pi / YEAR)
        out, state = self.lstm(torch.stack((values, angle.sin(), angle.cos()), dim=-1), state)
        return values + self.head(out).squeeze(-1), state


def make_series(n, seed):
    """Values about 0 with the size of 1, a month each."""
    noise = torch.randn(n, generator=torch.Generator().manual_seed(seed))
    month = torch.arange(n, dtype=torch.float32)
    year = torch.sin(month * (2 * math.pi / YEAR)) + 0.4 * torch.cos(month * (4 * math.pi / YEAR))
    return (1 + month / n) * 0.6 * year + 1.5 * month / n - 0.75 + 0.08 * noise


def draw_windows(series, count, length):
    """`count` stretches of `length` values with their months, and what follows each value."""
    start = torch.randint(0, len(series) - length, (count,))
    at = start[:, None] + torch.arange(length)
    return series[at], (at % YEAR).float(), series[at + 1]


def foretell(model, series, n):
    """The n values after `series`, each from those before it."""
    months = torch.arange(len(series) + n) % YEAR
    with torch.no_grad():
        next_one, state = model(series[None], months[None, : len(series)].float())
        found = [next_one[0, -1]]
        for month in months[len(series) : -1]:
            value, state = model(found[-1].view(1, 1), month.view(1, 1).float(), state)
            found.append(value[0, 0])
    return torch.stack(found)


def read_options():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--out", type=Path, default=Path("build/series"), help="folder of the drawings")
    p.add_argument("--months", type=int, default=360)
    p.add_argument("--steps", type=int, default=400)
    p.add_argument("--seed", type=int, default=0)
    return p.parse_args()


def main():
    args = read_options()
    torch.manual_seed(args.seed)
    series = make_series(args.months, args.seed)
    n = args.months // 10
    known, came = series[:-n], series[-n:]
    model = Forecaster()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=args.steps)
    for step in range(1, args.steps + 1):
        values, months, after = draw_windows(known, 16, 4 * YEAR)
        found, _ = model(values, months)
        loss = nn.functional.smooth_l1_loss(found[:, YEAR:], after[:, YEAR:], beta=0.1)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % max(1, args.steps // 10) == 0:
            print(f"step {step:4}: loss {loss.item():.5f}", flush=True)
    found = foretell(model, known, n)
    last_year = known[-YEAR:].repeat(n // YEAR + 1)[:n]
    print(f"foretold {n} months: {(found - came).abs().mean().item():.3f} apart; "
          f"the last year again would be {(last_year - came).abs().mean().item():.3f} apart")  # fmt: skip
    months = range(args.months - 3 * n, args.months)
    lines = {"what came": (months, series[-3 * n :].tolist()), "foretold": (months[-n:], found.tolist())}
    show.curves(args.out / "series.png", "demand", "month", lines)


if __name__ == "__main__":
    main()
