"""linspace, logspace, arange: PyTorch's bits, whichever the type."""

import random
import re
from typing import Any

import narthex as nt
import pytest
import torch

LIBS = (nt, torch)
# PyTorch's own bits differ for each number of threads where there are more numbers, and without AVX2.
VECTORS = pytest.mark.skipif(torch.backends.cpu.get_cpu_capability() == "DEFAULT", reason="PyTorch has AVX2's bits")


def both(function: str, *args: Any, dtype: str) -> list[Any]:
    return [getattr(lib, function)(*args, dtype=getattr(lib, dtype)).tolist() for lib in LIBS]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "complex64", "complex128"])
def test_the_bits_of_linspace(dtype: str) -> None:
    draw = random.Random(0)
    for _ in range(200):
        first, last, n = draw.gauss(0, 3), draw.gauss(0, 3), draw.randint(0, 900)
        if "complex" in dtype:
            first, last = complex(first, draw.gauss(0, 3)), complex(last, draw.gauss(0, 3))
        mine, theirs = both("linspace", first, last, n, dtype=dtype)
        assert mine == theirs, (first, last, n)


def test_the_bits_of_linspace_over_threads() -> None:
    n = 300_001
    assert nt.linspace(0.1, 0.7, n).numpy().tobytes() == torch.linspace(0.1, 0.7, n).numpy().tobytes()


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64"])
def test_into_integers(dtype: str) -> None:
    draw = random.Random(1)
    for _ in range(200):
        low = 0 if dtype == "uint8" else -100
        first, last, n = draw.uniform(low, 100), draw.uniform(low, 100), draw.randint(0, 200)
        mine, theirs = both("linspace", first, last, n, dtype=dtype)
        assert mine == theirs, (first, last, n)
    mine, theirs = both("logspace", 0, 3.9, 12, 3.0, dtype=dtype)
    assert mine == theirs


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "complex64", "complex128"])
def test_the_bits_of_logspace(dtype: str) -> None:
    draw = random.Random(2)
    for _ in range(100):
        first, last, n = draw.gauss(0, 1), draw.gauss(0, 1), draw.randint(0, 90)
        base = draw.choice([10.0, 2.0, 0.5, 2.718])
        if "complex" in dtype:
            first = complex(first, draw.gauss(0, 1))
        mine, theirs = both("logspace", first, last, n, base, dtype=dtype)
        assert mine == theirs, (first, last, n, base)


@VECTORS
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_the_bits_of_arange(dtype: str) -> None:
    draw = random.Random(3)
    for _ in range(200):
        first, step, n = draw.gauss(0, 3), draw.choice([0.1, draw.uniform(0.01, 2), -0.3]), draw.randint(1, 300)
        mine, theirs = both("arange", first, first + n * step, step, dtype=dtype)
        assert mine == theirs, (first, step, n)


REFUSED = {
    "complex into float": lambda m: m.linspace(1j, 2, 3, dtype=m.float32),
    "complex powers into float": lambda m: m.logspace(1j, 2, 3, dtype=m.float32),
    "negative steps": lambda m: m.logspace(0, 1, -1),
    "steps of float": lambda m: m.logspace(0, 1, 1.5),
    "no steps": lambda m: m.logspace(0, 1),
    "bool": lambda m: m.linspace(0, 1, 3, dtype=m.bool),
    "bool powers": lambda m: m.logspace(0, 1, 3, dtype=m.bool),
    "too large a start": lambda m: m.linspace(300, 2, 3, dtype=m.int8),
    "too large a float": lambda m: m.logspace(1e39, 2, 3),
    "a row": lambda m: m.linspace(m.ones(1), 2, 3),
    "a row at the end": lambda m: m.logspace(1, m.ones(1), 3),
    "two rows": lambda m: m.logspace(m.ones(1), m.ones(2), 3),
    "dtype beside out": lambda m: m.linspace(0, 1, 3, dtype=m.float64, out=m.ones(3)),
    "device beside out": lambda m: m.ones(3, device="meta", out=m.ones(3)),
    "arange by 0 into": lambda m: m.arange(0, 64, 0, out=m.ones(0)),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    said = []
    for lib in LIBS:
        with pytest.raises((RuntimeError, TypeError, ValueError)) as caught:
            REFUSED[name](lib)
        text = str(caught.value).split("\n")[0]
        said.append((caught.type, re.sub(r"^(aten::)?\w+: ", "", text)))
    assert said[0] == said[1]


TAKEN = {
    "dtype beside out": lambda m: m.arange(3, dtype=m.float32, out=m.ones(0)),
    "options beside out": lambda m: m.eye(2, device="cpu", layout=m.strided, dtype=m.int64, out=m.ones(0).long()),
    "full": lambda m: m.full((2,), 3.0, dtype=m.float32, out=m.ones(0)),
    "one power": lambda m: m.logspace(2, 7, 1),
    "one complex power": lambda m: m.logspace(1 + 1j, 7, 1),
    "wraps": lambda m: m.linspace(-1, 2, 3, dtype=m.uint8),
}  # fmt: skip


@pytest.mark.parametrize("name", TAKEN)
def test_taken(name: str) -> None:
    mine, theirs = (TAKEN[name](lib) for lib in LIBS)
    assert mine.tolist() == theirs.tolist() and str(mine.dtype) == str(theirs.dtype)


def test_requires_grad_beside_out() -> None:
    assert nt.ones(2, requires_grad=True, out=nt.zeros(2)).requires_grad
