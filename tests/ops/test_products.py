"""Products, by whatever instructions, at sizes around those of tiles and blocks, and strides; turned matrices."""

from __future__ import annotations

import random
from typing import Any

import narthex as nt
import pytest
import torch

PANELS = nt._C.level_name() != "base"
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


@pytest.mark.skipif(not PANELS, reason="halves are cast before and after where there are no panels")
@pytest.mark.parametrize("seed", range(30))
def test_halves_are_floats_rounded_once(seed: int) -> None:
    """Blocks and cells of halves have the bits of the whole product of floats, by any layout and number of threads."""
    draw = random.Random(seed)
    m, n, k = (draw.choice([*SIZES[1:], 400]) for _ in range(3))
    if seed % 10 == 0:
        m, n, k = [(1100, 70, 400), (64, 1100, 390), (270, 140, 800)][seed // 10]
    sizes = draw.choice([(m, n), (1, n), (m, 1), (n,), (1,), ()])
    a, b, start = (nt.from_dlpack(matrix(draw, *s).float()).half() for s in ((m, k), (k, n), (sizes + (1, 1))[:2]))
    start = start.reshape(sizes) if len(sizes) < 2 else start
    wanted = a.float() @ b.float()
    before = nt.get_num_threads()
    try:
        for threads in (1, 3):
            nt.set_num_threads(threads)
            assert nt.equal(a @ b, wanted.half())
            added = (start.float() + wanted).half()
            out = nt.zeros(n, m).half().t() if draw.random() < 0.3 else nt.zeros(m, n).half()
            assert nt.equal(nt.addmm(start, a, b, out=out), added) and nt.equal(out, added)
            if sizes == (m, n):
                assert nt.equal(start.clone().addmm_(a, b), added)
    finally:
        nt.set_num_threads(before)


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
        assert nt.equal(whole, a.t() @ b) and (nt.equal(whole, parts) or not PANELS)
    finally:
        nt.set_num_threads(before)
    assert nt.allclose(whole.double(), a.t().double() @ b.double(), atol=1e-3)


LENGTHS = [1, 2, 5, 6, 11, 13, 16, 17, 64, 65, 127, 200, 257, 265, 271, 400, 530, 1025, 1100]


@pytest.mark.parametrize("seed", range(60))
def test_float32_blocks(seed: int) -> None:
    """Sizes around those of strips, panels and blocks; rows, columns or parts of a row: near the exact product, the
    same bits on two threads and, where it is made of panels, for rows alone."""
    draw = random.Random(seed)
    m, n, k = draw.choice(LENGTHS), draw.choice(LENGTHS), draw.choice([1, 3, 8, 100, 383, 384, 385, 800])
    nt.manual_seed(seed)

    def operand(rows: int, columns: int) -> Any:
        how = draw.randrange(3)
        made = nt.randn(columns, rows).t() if how == 0 else nt.randn(rows, columns + 3 * how)
        return made if how == 0 else made[:, 2 * how : 2 * how + columns]

    a, b, start = operand(m, k), operand(k, n), nt.randn(m, n)
    before = nt.get_num_threads()
    try:
        nt.set_num_threads(1)
        found, added = a @ b, nt.addmm(start, a, b)
        exact = a.double() @ b.double()
        room = 1e-6 * (k**0.5 + 4) * (a.abs().double() @ b.abs().double() + 1)
        assert ((found.double() - exact).abs() <= room).all()
        assert ((added.double() - exact - start.double()).abs() <= 2 * room).all()
        part = draw.randrange(m)
        if m - part > 1 and n > 1 and PANELS:  # one row alone is another sum
            assert nt.equal(found[part:], a[part:] @ b)
        nt.set_num_threads(2)
        assert nt.equal(found, a @ b) and nt.equal(added, nt.addmm(start, a, b))
    finally:
        nt.set_num_threads(before)


@pytest.mark.parametrize("shape", [(1, 40), (16, 16), (17, 33), (48, 7), (100, 64), (130, 257), (31, 1024)])
def test_turned(shape: tuple[int, int]) -> None:
    """Matrices whose rows become columns, of every width of element, in parts of larger ones too."""
    for dtype in (nt.uint8, nt.int16, nt.float32, nt.int64, nt.complex128):
        x = nt.arange(4 * shape[0] * shape[1]).reshape(2 * shape[0], 2 * shape[1]).to(dtype)
        for part in (x, x[: shape[0], 1 : shape[1] + 1], x[1 : shape[0] + 1, : shape[1]]):
            turned = part.t().contiguous()
            assert turned.tolist() == [list(row) for row in zip(*part.tolist(), strict=True)]
