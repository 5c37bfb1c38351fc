"""Products of bfloat16 matrices, whatever instructions they are made of: sizes around those of tiles, and strides."""

from __future__ import annotations

import random

import narthex as nt
import pytest
import torch

SIZES = [1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 63, 65, 129, 300]


def matrix(draw: random.Random, rows: int, columns: int) -> torch.Tensor:
    """Contiguous, transposed, or every second column of a wider one."""
    made = torch.randn(2 * rows, 2 * columns, generator=torch.Generator().manual_seed(draw.randrange(1 << 30)))
    made = made.to(torch.bfloat16)
    how = draw.randrange(3)
    if how == 0:
        return made[:rows, :columns].contiguous()
    return made.reshape(2 * columns, 2 * rows).t()[:rows, :columns] if how == 1 else made[:rows, ::2]


@pytest.mark.parametrize("seed", range(40))
def test_bfloat16(seed: int) -> None:
    draw = random.Random(seed)
    m, n, k = (draw.choice(SIZES) for _ in range(3))
    a, b, start = matrix(draw, m, k), matrix(draw, k, n), matrix(draw, *draw.choice([(m, n), (1, n), (m, 1)]))
    x, y, z = (nt.from_dlpack(one) for one in (a, b, start))
    exact = a.double() @ b.double()
    for found, wanted in ((x @ y, exact), (nt.addmm(z, x, y), start.double() + exact)):
        assert found.dtype == nt.bfloat16
        room = 2.0**-8 * wanted.abs() + 2e-6 * (a.double().abs() @ b.double().abs())  # its rounding, that of the sums
        assert ((torch.from_dlpack(found).double() - wanted).abs() <= room + 1e-6).all()


def test_numbers_beyond() -> None:
    a = torch.ones(40, 40, dtype=torch.bfloat16)
    a[3, 5], a[20, 7] = float("inf"), float("nan")
    found = torch.from_dlpack(nt.from_dlpack(a) @ nt.ones(40, 40, dtype=nt.bfloat16))
    assert found[3].isinf().all() and found[20].isnan().all() and (found[0] == 40).all()


def test_many_rows():
    """So many that they are fetched once for a block of columns: the bits of a part alone, for any threads."""
    nt.manual_seed(0)
    a, b = nt.randn(400, 9000), nt.randn(400, 530)
    before = nt.get_num_threads()
    try:
        nt.set_num_threads(1)
        whole, parts = a.t() @ b, nt.cat([a[:, k : k + 1000].t() @ b for k in range(0, 9000, 1000)])
        nt.set_num_threads(2)
        assert nt.equal(whole, parts) and nt.equal(whole, a.t() @ b)
    finally:
        nt.set_num_threads(before)
    assert nt.allclose(whole.double(), a.t().double() @ b.double(), atol=1e-3)
