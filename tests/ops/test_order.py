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
