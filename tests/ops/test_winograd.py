"""Convolutions of 3 x 3 that take fewer products than plain sums do: sizes at which tiles are cut, padding, threads."""

from __future__ import annotations

import narthex as nt
import pytest
import torch

F = torch.nn.functional
# images, channels read, channels made, height, width, padding
CASES = [(4, 32, 32, 28, 28, 1), (1, 16, 16, 96, 101, 1), (3, 48, 20, 21, 66, 2), (2, 17, 35, 45, 51, 0),
         (9, 20, 65, 17, 18, (0, 2)), (1, 300, 33, 47, 49, 1),
         # few tiles, for which weights are turned strip by strip
         (4, 256, 40, 14, 14, 1), (1, 64, 50, 16, 19, 1), (3, 520, 30, 16, 15, 2), (1, 16, 16, 33, 30, 0)]  # fmt: skip


def near(found: nt.Tensor, wanted: torch.Tensor) -> None:
    """Within the rounding of sums of float32 numbers, three times that of plain ones."""
    scale = wanted.std()
    torch.testing.assert_close(torch.from_dlpack(found.detach()).double() / scale, wanted / scale, rtol=0, atol=6e-5)


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("bias", [True, False])
def test_numbers(case: tuple, bias: bool) -> None:
    n, c, k, height, width, padding = case
    draw = torch.Generator().manual_seed(0)
    x, w, b = (torch.randn(size, generator=draw) for size in ((n, c, height, width), (k, c, 3, 3), (k,)))
    mine = [nt.from_dlpack(one).requires_grad_() for one in (x, w, b)]
    theirs = [one.double().requires_grad_() for one in (x, w, b)]
    found = nt.nn.functional.conv2d(*mine[: 2 + bias], padding=padding)
    wanted = F.conv2d(*theirs[: 2 + bias], padding=padding)
    near(found, wanted.detach())
    g = torch.randn(wanted.shape, generator=draw)
    found.backward(nt.from_dlpack(g))
    wanted.backward(g.double())
    for one, other in list(zip(mine, theirs))[: 2 + bias]:
        near(one.grad, other.grad)


@pytest.mark.parametrize("size", [(3, 24, 50, 61), (2, 100, 15, 14)], ids=str)
def test_the_same_bits_for_any_number_of_threads(size: tuple) -> None:
    x, w = nt.randn(*size), nt.randn(40, size[1], 3, 3)
    before, made = nt.get_num_threads(), []
    for threads in (1, 2, 3, 7):
        nt.set_num_threads(threads)
        made.append(nt.nn.functional.conv2d(x, w, padding=1))
    nt.set_num_threads(before)
    assert all(nt.equal(made[0], one) for one in made[1:])


def test_numbers_beyond() -> None:
    x, w = torch.randn(1, 16, 64, 64), torch.randn(16, 16, 3, 3)
    x[0, 3, 10, 12] = float("nan")
    found = torch.from_dlpack(nt.nn.functional.conv2d(nt.from_dlpack(x), nt.from_dlpack(w), padding=1))
    assert found[0, :, 9:12, 11:14].isnan().all()  # a tile of 4 x 4 shares it
    assert not found[0, :, :7].isnan().any() and not found[0, :, 16:].isnan().any()
