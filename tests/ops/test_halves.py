"""float16: every number of it to float32 and back as PyTorch has them, and element loops by way of float32."""

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
