"""Elements chosen by rank among equal ones and NaN; places written with an index that lies in what is written; edges of
a sequence that values equal. Compared with what the definition says."""

from __future__ import annotations

import math

import narthex as torch
import pytest


def in_order(row: list[float]) -> list[int]:
    return sorted(range(len(row)), key=lambda k: (math.isnan(row[k]), 0 if math.isnan(row[k]) else row[k]))


@pytest.mark.parametrize("n", [1, 2, 7, 64, 1000])
@pytest.mark.parametrize("values", [2, 5, 10**6])
def test_kthvalue_takes_the_first_of_equal_ones(n: int, values: int) -> None:
    torch.manual_seed(n * values)
    x = torch.randint(values, (n,)).to(torch.float32)
    for k in {1, (n + 1) // 2, n}:
        value, index = x.kthvalue(k)
        place = in_order(x.tolist())[k - 1]
        assert (value.item(), index.item()) == (x[place].item(), place)


@pytest.mark.parametrize("n", [3, 50, 501])
def test_nan_comes_last(n: int) -> None:
    torch.manual_seed(n)
    x = torch.randint(4, (n,)).to(torch.float32)
    x[::3] = math.nan
    order = in_order(x.tolist())
    for k in range(1, n + 1, max(1, n // 9)):
        assert x.kthvalue(k)[1].item() == order[k - 1]
    left = n - (n + 2) // 3
    assert x.nanmedian(0)[1].item() == order[(left - 1) // 2]
    assert math.isnan(x.median().item()) and x.median(0)[1].item() == 0


def test_index_in_what_is_written_is_refused() -> None:
    x = torch.tensor([1, 2, 3, 0])
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        x.scatter_(0, x, 9)
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        x.scatter_add_(0, x, torch.tensor([10, 20, 30, 40]))
    assert x.tolist() == [1, 2, 3, 0]


@pytest.mark.parametrize("right", [False, True])
def test_searchsorted_counts_what_stands_in_front(right: bool) -> None:
    for n in (1, 2, 3, 8, 13):
        edges = torch.arange(n) * 2
        values = torch.arange(-1, 2 * n + 2)
        want = [sum(e <= v if right else e < v for e in edges.tolist()) for v in values.tolist()]
        assert torch.searchsorted(edges, values, right=right).tolist() == want
        assert torch.searchsorted(edges.float(), values.float(), right=right).tolist() == want
