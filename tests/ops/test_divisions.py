"""What divisions leave is exact: fmod of floats beside the C library's, of quotients small, large and just off."""

from __future__ import annotations

import narthex as torch
import numpy as np
import pytest

DRAW = np.random.default_rng(0)
DIVISORS = DRAW.uniform(1, 2, 20000) * np.where(DRAW.random(20000) < 0.5, -1, 1)
MULTIPLES = np.floor(np.exp2(DRAW.integers(1, 45, 20000))) * DIVISORS
SPREAD = DRAW.standard_normal(20000) * np.exp2(DRAW.integers(-300, 300, 20000).astype(float))
DIVIDENDS = {
    "near": DRAW.standard_normal(20000) * np.exp2(DRAW.integers(0, 46, 20000)),
    "multiples": MULTIPLES,
    "just above": MULTIPLES * (1 + 2**-52),
    "just below": MULTIPLES * (1 - 2**-53),
    "far": SPREAD,
}


@pytest.mark.parametrize("name", DIVIDENDS)
@pytest.mark.parametrize("dtype", (np.float32, np.float64))
@pytest.mark.parametrize("number", (False, True), ids=("tensor", "number"))
def test_fmod_is_exact(name: str, dtype: type, number: bool) -> None:
    with np.errstate(all="ignore"):
        a, b = DIVIDENDS[name].astype(dtype), DIVISORS.astype(dtype)
        b = np.full_like(b, dtype(0.7)) if number else b
        expected = np.fmod(a, b)
    got = torch.fmod(torch.from_numpy(a), float(b[0]) if number else torch.from_numpy(b)).numpy()
    assert np.array_equal(got, expected, equal_nan=True)
    assert np.array_equal(np.signbit(got), np.signbit(expected))


@pytest.mark.parametrize("dtype", (np.uint8, np.int8, np.int16, np.int32, np.int64))
@pytest.mark.parametrize("step", (1, 2))
def test_one_zero_among_many_divisors_is_found(dtype: type, step: int) -> None:
    n = 600_001
    by = np.resize(np.array([1, np.iinfo(dtype).max, np.iinfo(dtype).min or 7, 3], dtype), n)
    x = torch.ones(n // step + n % step * (step > 1), dtype=torch.from_numpy(by).dtype)
    assert (x // torch.from_numpy(by)[::step]).shape == x.shape
    for place in (0, n // step // 2 * step, n - 1):
        zero = by.copy()
        zero[place] = 0
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            x // torch.from_numpy(zero)[::step]
