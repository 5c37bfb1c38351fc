"""Functions of one element beside PyTorch's in double, in units in the last place, at every level: over wide ranges,
near the edges of their polynomials, of every size, and at special values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import narthex as nt
import numpy as np
import pytest
import torch

from tests.ops.build import to_ours, to_theirs
from tests.ops.test_cases import BEST, LEVELS, kernels

DRAW = np.random.default_rng(1)
SPECIAL = [0, -0.0, 1, -1, 2, -2, 3, -3, 0.5, -0.5, 1.5, -2.5, 8, -8, 7.9999995, 8.000001, 1e5, -1e5, 99999.99]
SPECIAL += [0.84, 0.75, 5.99, 6, 26.5, 27.3, 28, 40, 88.7, 89, 91.9, 92, -104, 709.7, 709.9, 710.4, 710.5, -745.2]
SPECIAL += [100000.1, 1e-40, 1e-310, -1e-310, 1e10, 1e30, -1e30, 3e38, 0.99999994, 1.0000001, 1.9999999, 2.0000002]
SPECIAL += [float("inf"), float("-inf"), float("nan")]
NEAR = np.concatenate([DRAW.uniform(-30, 30, 40000), DRAW.uniform(-2, 2, 40000), DRAW.uniform(-1e5, 1e5, 20000)])
WIDE = np.concatenate([SPECIAL, NEAR, DRAW.choice([-1, 1], 20000) * np.exp2(DRAW.uniform(-140, 127, 20000))])
# Where PyTorch's are not infinite too soon.
FINITE = WIDE[~((abs(WIDE) > 709.7) & (abs(WIDE) < 711))]
UNIT = np.concatenate([SPECIAL, DRAW.uniform(-1, 1, 60000), 1 - np.exp2(DRAW.uniform(-50, -1, 5000))])
CHANCES = np.concatenate([DRAW.uniform(0, 1, 40000), np.exp2(DRAW.uniform(-999, -1, 9000)), [0, 1, 0.5, -0.1, 1.1]])
POSITIVE = np.concatenate([np.abs(SPECIAL), DRAW.uniform(0, 40, 40000), np.exp2(DRAW.uniform(-120, 100, 20000))])

at_every_level = pytest.mark.parametrize("level", LEVELS[: LEVELS.index(BEST) + 1])


def units(got: torch.Tensor, want: torch.Tensor) -> torch.Tensor:
    """How far the results lie from `want`, which may have more digits, in units in the last place of their dtype. What
    is the same, an infinity or NaN included, is 0 away; what is finite on one side alone infinitely far."""
    bits, least = {torch.float32: (24, -125), torch.float64: (53, -1021)}[got.dtype]
    rounded, exact = want.to(got.dtype), want.double()
    unit = torch.ldexp(torch.ones_like(exact), torch.frexp(rounded.double()).exponent.clamp(min=least) - bits)
    away = (got.double() - exact).abs() / unit
    same = (got == rounded) & (got.signbit() == rounded.signbit()) | got.isnan() & rounded.isnan()
    return away.masked_fill(~got.isfinite() | ~rounded.isfinite(), float("inf")).masked_fill(same, 0)


def check(
    of: Callable[[Any, list[Any]], Any], given: list[torch.Tensor], most: float, level: str, floor: float = 0
) -> None:
    """`floor`: what lies at most so far from the right result counts as right, too."""
    with kernels(level):
        got = to_theirs(of(nt, [to_ours(x) for x in given]))
    compare(given, got, of(torch, [x.double() for x in given]), most, floor)


def compare(given: list[torch.Tensor], got: torch.Tensor, want: torch.Tensor, most: float, floor: float) -> None:
    away = units(got, want).masked_fill((got.double() - want).abs() <= floor, 0)
    worst = int(away.argmax())
    at, found = [float(x[worst]) for x in given], (float(got[worst]), float(want[worst]), float(away[worst]))
    assert found[2] <= most, f"at {at}: {found[0]!r}, not {found[1]!r}: {found[2]} units"


def named(name: str) -> Callable[[Any, list[Any]], Any]:
    if name == "trigamma":
        return lambda t, x: t.polygamma(1, x[0])
    return lambda t, x: getattr(t if hasattr(t, name) else t.special, name)(x[0])


DOUBLES: dict[str, tuple[Any, float]] = {"sin": (WIDE, 2), "cos": (WIDE, 2), "tan": (WIDE, 2), "sinc": (WIDE, 4)}
DOUBLES |= {"exp": (WIDE, 2), "exp2": (WIDE, 2), "expm1": (WIDE, 3.5), "tanh": (WIDE, 4), "sinh": (FINITE, 4)}
DOUBLES |= {"cosh": (FINITE, 3), "erf": (WIDE, 2.5), "erfc": (WIDE, 6), "erfinv": (UNIT, 5), "atan": (WIDE, 2)}
DOUBLES |= {"ndtri": (CHANCES, 8)}
DOUBLES |= {"log2": (WIDE, 2), "log10": (WIDE, 2), "atanh": (UNIT, 3)}
DOUBLES |= {"asin": (UNIT, 2), "acos": (UNIT, 2), "spherical_bessel_j0": (WIDE, 3.5)}


@at_every_level
@pytest.mark.parametrize("name", DOUBLES)
def test_of_doubles(name: str, level: str) -> None:
    given, most = DOUBLES[name]
    check(named(name), [torch.from_numpy(given)], most, level)
    check(named(name), [torch.from_numpy(np.repeat(given, 2))[::2]], most, level)


@at_every_level
def test_of_two_doubles(level: str) -> None:
    pairs = np.array(np.meshgrid(SPECIAL, SPECIAL)).reshape(2, -1)
    near_one = 1 + DRAW.uniform(-1, 1, 20000) * np.exp2(-DRAW.integers(1, 52, 20000).astype(float))
    large = DRAW.uniform(-1, 1, 20000) * np.exp2(DRAW.integers(0, 60, 20000).astype(float))
    base = torch.from_numpy(np.concatenate([pairs[0], near_one, DRAW.uniform(0, 40, 40000)]))
    by = torch.from_numpy(np.concatenate([pairs[1], large, DRAW.uniform(-100, 100, 40000)]))
    check(lambda t, x: t.pow(x[0], x[1]), [base, by], 2.5, level)
    check(lambda t, x: t.atan2(x[0], x[1]), [base, by], 2.5, level)
    check(lambda t, x: t.hypot(x[0], x[1]), [base, by], 1, level)
    check(lambda t, x: t.hypot(x[0], x[1]), [base * 2.0**-1030, by * 2.0**-1040], 1, level)
    for number in (0.1, -2.5, 7.0, 33.3, -1e6, 2.0**53 - 1):
        check(lambda t, x, number=number: t.pow(x[0], number), [base], 2.5, level)


# Units, and how far a result may lie off: a function's digits end beside its zeros.
NUMBERS = WIDE[np.isfinite(WIDE)]  # PyTorch's i0 of infinity is no number
FLOATS: dict[str, tuple[Any, float, float]] = {"i0": (NUMBERS, 6, 0), "i0e": (WIDE, 6, 0), "i1": (NUMBERS, 6, 0)}
FLOATS |= {"i1e": (WIDE, 6, 0), "lgamma": (WIDE, 2, 2e-9), "trigamma": (POSITIVE, 2, 0)}
FLOATS |= {"sinc": (NEAR, 4, 1e-6), "spherical_bessel_j0": (WIDE, 4, 0)}


@at_every_level
@pytest.mark.parametrize("name", FLOATS)
def test_of_floats(name: str, level: str) -> None:
    given, most, floor = FLOATS[name]
    with np.errstate(all="ignore"):
        numbers = torch.from_numpy(given.astype(np.float32))
    check(named(name), [numbers], most, level, floor)
    check(named(name), [numbers.repeat_interleave(2)[::2]], most, level, floor)


BESSEL = ("bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1")


@at_every_level
@pytest.mark.parametrize("name", BESSEL)
def test_bessel_functions(name: str, level: str) -> None:
    """Beside the C library's in double: PyTorch's are off by 1e-7 near zeros, and far out their angles have lost their
    digits. A piece with a far element has the bits that its near ones have elsewhere."""
    of: Any = getattr(nt.special, name)
    near = torch.from_numpy(np.concatenate([SPECIAL[:19], NEAR]).astype(np.float32))
    far = torch.tensor([2e5, 1e7, 123456792.0, 1e12, 3e20, 1e30, 3e38, float("inf"), float("-inf"), float("nan")])
    with kernels(level):
        alone, beside = to_theirs(of(to_ours(near))), to_theirs(of(to_ours(torch.cat([near, far.repeat(200)]))))
    wide = [to_theirs(of(to_ours(x.double()))) for x in (near, far)]
    compare([near], alone, wide[0], 2, 1e-8)
    assert torch.equal(alone.nan_to_num(7), beside[: near.numel()].nan_to_num(7))
    compare([far], beside[-10:], wide[1], 2, 1e-12)
