"""Rows of softmax and its relatives: the same bits whether elements or rows lie side by side, as near as PyTorch's."""

import narthex as nt
import pytest
import torch

from tests.front.both import close, over

NAMES = ["_softmax", "_log_softmax", "_softmax_backward_data", "_log_softmax_backward_data"]
# Rows that fit into a vector, several at a time or not, and as many as fill one or not; rows shorter and longer than a
# strand and a chunk; few rows side by side, a strip, more; one too large for the caches.
SIZES = [(1, 3), (2, 1), (3, 19), (4, 2), (4, 5), (5, 3), (7, 7), (8, 1), (8, 9), (11, 4), (16, 17), (17, 5)]
SIZES += [(1, 64), (5, 33), (65, 1), (64, 5), (33, 20), (1030, 70), (2100, 130)]


def run(m, name, x, dim):
    if "backward" not in name:
        return getattr(m.ops.aten, name)(x, dim, False)
    y = getattr(m.ops.aten, name.replace("_backward_data", ""))(x * 0.5 + 1, dim, False)
    return getattr(m.ops.aten, name)(x, y, dim, x.dtype)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_layouts(name, dtype):
    torch.manual_seed(0)
    for n, inner in SIZES:
        given = torch.randn(2, n, inner, dtype=getattr(torch, dtype))
        x = over(given)
        side_by_side = run(nt, name, x, 1)
        behind = run(nt, name, x.transpose(1, 2).contiguous(), -1).transpose(1, 2)
        apart = run(nt, name, nt.cat([x, x], 2)[:, :, :inner], 1)  # not row-major
        assert bool((side_by_side == behind).all()) and bool((side_by_side == apart).all()), (n, inner)
        close(side_by_side.float(), run(torch, name, given, 1).float(), atol=0.05 if dtype == "bfloat16" else 1e-5)


@pytest.mark.parametrize("n", [2, 3, 4, 7, 8, 13, 16, 32, 65])
def test_special(n):
    x = nt.randn(2, n, 20)
    x[:, 0] = float("-inf")
    x[0, :, 1] = float("-inf")
    x[1, n - 1, 2] = float("nan")
    for name in NAMES[:2]:
        got = run(nt, name, x, 1)
        close(got, run(torch, name, over(x), 1), atol=1e-5)
        assert bool((run(nt, name, x.transpose(1, 2).contiguous(), 2)[1, 3] == got[1, :, 3]).all())
