"""Whole orders and running extremes of rows of every length and kind of number, against PyTorch."""

from __future__ import annotations

import narthex as nt
import pytest
import torch


def numbers(kind: str, *size: int) -> torch.Tensor:
    torch.manual_seed(5)
    if kind == "wide":
        return torch.randint(-(2**63), 2**63 - 1, size)
    if kind == "few":
        return torch.randint(-3, 4, size)
    x = torch.randint(-3, 4, size).to(torch.float64 if kind == "double" else torch.float32)
    x[x == 3], x[x == 2], x[x == -3] = float("nan"), float("inf"), -float("inf")
    return torch.where((x == 0) & (torch.rand(size) < 0.5), -0.0, x)


def check(ours: tuple, theirs: tuple) -> None:
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(torch.from_numpy(one.numpy()), other, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("kind", ["float", "double", "few", "wide"])
@pytest.mark.parametrize("size", [(1,), (40,), (41,), (3500,), (9, 140), (5, 3, 200)])
def test_rows(kind: str, size: tuple[int, ...]) -> None:
    x = numbers(kind, *size)
    y = nt.from_numpy(x.numpy())
    for dim in range(len(size)):
        for descending in (False, True):
            check(*(t.sort(dim=dim, stable=True, descending=descending) for t in (y, x)))
        check(y.cummax(dim), x.cummax(dim))
        check(y.cummin(dim), x.cummin(dim))


@pytest.mark.parametrize("kind", ["float", "double", "few", "wide", "half"])
@pytest.mark.parametrize("size", [(1, 1), (31, 3), (32, 64), (33, 65), (700, 5), (3, 65, 70), (2, 33, 1)])
def test_extremes(kind: str, size: tuple[int, ...]) -> None:
    """The first of equal ones, NaN before all: of rows, and of rows that lie side by side, also in other strides."""
    x = numbers("float", *size).to(torch.bfloat16) if kind == "half" else numbers(kind, *size)
    y = nt.from_numpy(x.float().numpy()).to(nt.bfloat16) if kind == "half" else nt.from_numpy(x.numpy())
    for dim in range(len(size)):
        for theirs, ours in ((x, y), (x[:, ::2], y[:, ::2]), (x.transpose(0, -1), y.transpose(0, -1))):
            for name in ("max", "min"):
                values, indices = getattr(theirs, name)(dim)
                found = getattr(ours, name)(dim)
                check((found[0].to(nt.float64), found[1]), (values.double(), indices))
                check((getattr(ours, "arg" + name)(dim),), (indices,))
            folded = ours.amax(dim), ours.amin(dim)
            check(tuple(one.to(nt.float64) for one in folded), (theirs.amax(dim).double(), theirs.amin(dim).double()))
