"""Half types: every number of float16 to float32 and back as PyTorch has them, and element loops by way of float32."""

import narthex as nt
import numpy as np
import pytest
import torch


def bits(tensor):
    array = tensor.numpy()
    return array.view(np.uint16 if array.dtype == np.float16 else np.uint32)


def test_every_half_becomes_the_float_that_it_is():
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    mine, other = nt.from_numpy(halves).float(), torch.from_numpy(halves).float()
    known = ~np.isnan(halves)
    assert (bits(mine)[known] == bits(other)[known]).all() and np.isnan(mine.numpy()[~known]).all()


def test_floats_are_rounded_to_the_nearest_half_and_ties_to_the_even_one():
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float32)
    ties = (halves[:-1] + halves[1:]) / 2
    any_bits = np.random.default_rng(0).integers(0, 1 << 32, 1 << 18, dtype=np.uint64).astype(np.uint32)
    above, below = np.nextafter(ties, np.float32(9e9)), np.nextafter(ties, np.float32(-9e9))
    floats = np.concatenate([any_bits.view(np.float32), ties, above, below, -ties])
    mine, other = nt.from_numpy(floats).half(), torch.from_numpy(floats).half()
    known = ~np.isnan(floats)
    assert (bits(mine)[known] == bits(other)[known]).all() and np.isnan(mine.numpy()[~known]).all()


@pytest.mark.parametrize("n", [1, 7, 8, 9, 511, 512, 513, 1500])
@pytest.mark.parametrize("step", [1, 3])
def test_loops_over_halves(n, step):
    nt.manual_seed(n)
    x, y = nt.randn(n * step).half()[::step], nt.randn(n * step).half()[::step]
    expected = (x.float() * y.float()).half()
    out = nt.zeros(2 * n).half()[::2]
    nt.mul(x, y, out=out)
    assert nt.equal(out, expected)
    assert nt.equal(x + y[0], (x.float() + y[0].float()).half())
    assert nt.equal(x > y, x.float() > y.float())
    x.mul_(y)
    assert nt.equal(x, expected)


# Of operands: what float32 gives, rounded once.
OPERATORS = {
    "neg": lambda m, x, y: -x,
    "abs": lambda m, x, y: x.abs(),
    "floor": lambda m, x, y: x.floor(),
    "round": lambda m, x, y: x.round(),
    "sign": lambda m, x, y: x.sign(),
    "relu": lambda m, x, y: m.relu(x),
    "sqrt": lambda m, x, y: x.sqrt(),
    "clamp": lambda m, x, y: x.clamp(-0.5, 1.5),
    "threshold": lambda m, x, y: m.nn.functional.threshold(x, 0.25, -1.0),
    "nan_to_num": lambda m, x, y: x.nan_to_num(2.0, 3.0, -4.0),
    "add of a number": lambda m, x, y: x + 0.25,
    "add": lambda m, x, y: m.add(x, y, alpha=2),
    "div": lambda m, x, y: x / y,
    "maximum": lambda m, x, y: m.maximum(x, y),
    "copysign": lambda m, x, y: m.copysign(x, y),
    "where": lambda m, x, y: m.where(x > y, x, y),
    "lerp": lambda m, x, y: m.lerp(x, y, y),
    "greater": lambda m, x, y: (x > y).to(x.dtype),
    "exp": lambda m, x, y: x.exp(),
    "cos": lambda m, x, y: x.cos(),
    "gelu": lambda m, x, y: m.nn.functional.gelu(x),
    "atan2": lambda m, x, y: m.atan2(x, y),
    "remainder": lambda m, x, y: m.remainder(x, y),
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", OPERATORS)
def test_operators_are_those_of_floats_rounded_once(name, dtype):
    half, f = getattr(nt, dtype), OPERATORS[name]
    nt.manual_seed(1)
    for n in (1, 15, 16, 17, 32, 49, 700):
        x, y = (nt.randn(2 * n).to(half) for _ in range(2))
        x[: 2 * n : 5], y[: 2 * n : 7] = float("nan"), float("inf")
        for a, b in ((x, y), (x[::2], y[::2]), (x[:n], y[n:]), (x, y[:1]), (x[:1], y), (x[::2], y[:n])):
            found, wanted = f(nt, a, b), f(nt, a.float(), b.float()).to(half)
            nt.testing.assert_close(found, wanted, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_numbers_beside_are_those_of_pytorch(dtype):
    every = np.arange(1 << 16, dtype=np.uint16).view(np.int16)
    for towards in (0.0, -0.0, 1.0, -2.0, float("inf"), float("-inf"), float("nan")):
        def beside(m, towards=towards):
            x = m.from_numpy(every).view(getattr(m, dtype))
            return m.nextafter(x, m.full_like(x, towards)).float()

        mine, theirs = torch.from_numpy(beside(nt).numpy()), beside(torch)
        torch.testing.assert_close(mine, theirs, rtol=0, atol=0, equal_nan=True)
        known = ~theirs.isnan()
        assert torch.equal(mine.signbit()[known], theirs.signbit()[known])


@pytest.mark.parametrize("fold", ["sum", "prod", "amax", "amin", "mean", "nansum"])
@pytest.mark.parametrize("sizes", [(1, 1), (3, 17), (70, 64), (64, 70), (5, 4100), (4100, 5), (33, 130)])
def test_folds_are_those_of_floats(fold, sizes):
    """In the same order: the same bits."""
    nt.manual_seed(2)
    x = (nt.rand(sizes) * 0.02 + 1).half()
    for a in (x, x.t().contiguous().t(), x.repeat_interleave(2, 1)[:, ::2]):
        for dim in (0, 1, (0, 1)):
            if fold == "prod" and dim == (0, 1):
                continue
            found, wanted = getattr(a, fold)(dim), getattr(a.float(), fold)(dim).half()
            assert nt.equal(found, wanted), (a.stride(), dim)


@pytest.mark.parametrize("to", "bool uint8 int8 int32 int64 bfloat16 float64 complex32 complex64 complex128".split())
@pytest.mark.parametrize("step", [1, 2])
def test_casts_of_halves(to, step):
    nt.manual_seed(3)
    for n in (1, 31, 32, 33, 300):
        x = (nt.randn(n * step) * 9).half()[::step]
        wide = x.float().to(getattr(nt, to))
        assert nt.equal(x.to(getattr(nt, to)), wide)
        kept = nt.zeros(n * step, dtype=getattr(nt, to))[::step].copy_(x)
        assert nt.equal(kept, wide)
        if to != "bool":
            assert nt.equal(nt.zeros(n * step).half()[::step].copy_(wide.real), wide.real.float().half())


def test_complex_numbers_of_halves():
    x, y = nt.randn(3, 50).half(), nt.randn(50).half()
    z = nt.complex(x, y.expand(3, 50))
    assert z.dtype is nt.complex32 and nt.equal(z.real, x) and nt.equal(z.imag, y.expand(3, 50))
    assert nt.equal(z.to(nt.complex64).to(nt.complex32), z) and nt.equal(z.to(nt.complex128).real, x.double())
