"""linspace: PyTorch's bits, whichever the type, from both ends."""

import random

import narthex as nt
import pytest
import torch


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_the_bits_of_linspace(dtype: str) -> None:
    draw = random.Random(0)
    for _ in range(200):
        first, last, n = draw.gauss(0, 3), draw.gauss(0, 3), draw.randint(0, 900)
        mine, theirs = (m.linspace(first, last, n, dtype=getattr(m, dtype)).tolist() for m in (nt, torch))
        assert mine == theirs, (first, last, n)


def test_the_bits_of_linspace_over_threads_and_into_integers() -> None:
    n = 300_001
    assert nt.linspace(0.1, 0.7, n).numpy().tobytes() == torch.linspace(0.1, 0.7, n).numpy().tobytes()
    for first, last in ((0.9, 9.9), (-3.7, 8.2)):
        mine, theirs = (m.linspace(first, last, 10, dtype=m.int64).tolist() for m in (nt, torch))
        assert mine == theirs
