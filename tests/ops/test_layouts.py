"""Operators over elements that lie apart, in rows of few elements, in columns of one operand beside rows of another:
bit for bit what they give of the same elements side by side."""

import itertools

import narthex as nt
import pytest
import torch


def transposed(x):
    return x.transpose(0, -1).contiguous().transpose(0, -1)


def every(step):
    return lambda x: x.repeat_interleave(step, -1)[..., ::step]


def outer_apart(x):
    return x.repeat_interleave(2, 0)[::2]


def expanded(x):
    return x[:1].expand(x.shape)


def first_column(x):
    return x[..., :1].expand(x.shape)


LAYOUTS = [lambda x: x, transposed, every(2), every(3), outer_apart, expanded, first_column]
SIZES = [(40, 50), (3, 70, 5), (100, 2), (300, 8), (90, 64), (17, 33), (2, 64, 70), (70, 3, 16), (1, 9), (600, 40)]
SIZES += [(0, 5)]
SUMS = {
    "add": lambda x, y, m: x + y,
    "multiply": lambda x, y, m: x * 2.5 - y,
    "greater": lambda x, y, m: x > y,
    "where": lambda x, y, m: nt.where(m, x, y),
    "exp": lambda x, y, m: x.exp(),
    "sine": lambda x, y, m: (x * 1e5).sin(),
    "power": lambda x, y, m: x.abs() ** y,
    "clamp": lambda x, y, m: x.double().clamp(y, y + 1),
    "rest": lambda x, y, m: (x * 9).to(nt.int16).remainder((y * 9).to(nt.int16).abs() + 1),
    "exp of complex": lambda x, y, m: nt.complex(x, y).exp(),
    "exp of halves": lambda x, y, m: x.bfloat16().exp(),
    "hardshrink": lambda x, y, m: nt.nn.functional.hardshrink(x),
    "half": lambda x, y, m: x.bfloat16() * y.bfloat16(),
    "mixed": lambda x, y, m: x.half() + y,
    "cast": lambda x, y, m: x.to(nt.int32) + m,
    "double": lambda x, y, m: nt.maximum(x.double(), y),
    "complex": lambda x, y, m: nt.complex(x, y) * nt.complex(y, x),
    "logic": lambda x, y, m: m ^ (x > 0),
    "lerp": lambda x, y, m: nt.lerp(x, y, y),
    "softmax": lambda x, y, m: x.softmax(0),
    "log_softmax": lambda x, y, m: x.log_softmax(-1),
    "cumsum": lambda x, y, m: x.cumsum(0),
    "cummax": lambda x, y, m: x.cummax(-1).indices,
    "copy": lambda x, y, m: nt.empty_like(y).copy_(x),
    "int": lambda x, y, m: nt.empty_like(y, dtype=nt.int64).copy_(x),
    "index_put": lambda x, y, m: x.clone().index_put((m,), y[m], True),
}


@pytest.mark.parametrize("name", SUMS)
def test_elementwise(name):
    nt.manual_seed(0)
    for sizes, (a, b) in itertools.product(SIZES, itertools.product(LAYOUTS, LAYOUTS)):
        x, y = a(nt.randn(sizes)), b(nt.randn(sizes))
        m = a(nt.rand(sizes) > 0.5)
        found = SUMS[name](x, y, m)
        wanted = SUMS[name](x.contiguous(), y.contiguous(), m.contiguous())
        assert found.dtype is wanted.dtype and nt.equal(found, wanted), (sizes, x.stride(), y.stride())


@pytest.mark.parametrize("layout", LAYOUTS[:5])
def test_in_place(layout):
    for sizes in SIZES:
        x, y = nt.randn(sizes), nt.randn(sizes)
        apart = layout(x.clone())
        for a in (apart, x):
            a.add_(y).exp_().mul_(y > 0).clamp_(-1, y.mean()).sub_(y)
        assert nt.equal(apart, x), (sizes, apart.stride())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_folds(layout):
    for sizes in SIZES[:-1]:
        x = layout(nt.rand(sizes) * 0.01 + 1)
        for dim in (*range(len(sizes)), None):
            for fold in (nt.sum, nt.amax, nt.argmin, nt.prod, nt.aminmax):
                given = {} if dim is None and fold is not nt.aminmax else {"dim": dim}
                found, wanted = fold(x, **given), fold(x.contiguous(), **given)
                for f, w in zip(found, wanted) if fold is nt.aminmax else [(found, wanted)]:
                    nt.testing.assert_close(f, w, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_uniform(dtype):
    """Numbers are drawn in order of memory; those that round up to the end of the range become its beginning."""
    for layout, (low, high) in itertools.product((lambda x: x, every(2), transposed), ((0, 1), (-3, 0.001))):
        x = layout(nt.empty(70, 65, dtype=getattr(nt, dtype)))
        y = torch.empty_strided(x.shape, x.stride(), dtype=getattr(torch, dtype))
        for m, a in ((nt, x), (torch, y)):
            m.manual_seed(3)
            a.uniform_(low, high)
        assert x.tolist() == y.tolist()
