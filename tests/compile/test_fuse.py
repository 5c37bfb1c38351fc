"""What becomes one tile program, by its number in the plan, and that it has eager mode's bits."""

import re

import narthex as nt
import pytest
from narthex.nn import functional as F

from .test_plan import compiled_plan

SIZE = (64, 257)


def reads_itself(x, y):
    a = x * y * 2
    return a + 1, a.sum(-1)


# name: function, dtype of its inputs, steps of its plan, tile programs among them
CASES = {
    "a choice by a comparison": (lambda x, y: nt.where(x > 0, nt.exp(x * y) + 1, nt.tanh(y) * 2), nt.float32, 1, 1),
    "a product with a mask": (lambda x, y: (x * y) * (x > 0), nt.float32, 1, 1),
    "a mask that is wanted": (lambda x, y: ((x * y) > y, (x * y) * ((x * y) > y)), nt.float32, 1, 1),
    "masks of masks": (lambda x, y: ((x > 0) & (y > 0) | ~(x < y)) * x, nt.float32, 1, 1),
    "a mask that is counted": (lambda x, y: (x * 2 > y).sum(-1), nt.float32, 1, 1),
    "half types beside numbers": (lambda x, y: nt.exp(x * y) * 2.3 + 1.7, nt.bfloat16, 1, 1),
    "float16 beside numbers": (lambda x, y: (x * 2.3 - y / 1.7) * 0.1, nt.float16, 1, 1),
    "a gate": (lambda x, y: F.silu(x) * y * 0.5, nt.bfloat16, 1, 1),
    "comparisons of half types": (lambda x, y: nt.where(x > 0.3, x * 1.1, y), nt.bfloat16, 1, 1),
    "half types beside one element": (lambda x, y: (x + 1) * nt.full((), 0.3), nt.bfloat16, 2, 1),
    "to a half type": (lambda x, y: (nt.exp(x * y) + 1).bfloat16(), nt.float32, 1, 1),
    "from a half type": (lambda x, y: (x.float() * 2 + y.float()).tanh(), nt.bfloat16, 1, 1),
    "there and back": (lambda x, y: (x * 3).bfloat16().float() + (y * 3).half().double(), nt.float32, 1, 1),
    "to whole numbers": (lambda x, y: (x * 9).long() * 2 + (y * 9).int(), nt.float32, 1, 1),
    "a fold of a member that is not the last": (reads_itself, nt.float32, 1, 1),
    "a fold of a cast": (lambda x, y: (x * y).bfloat16().sum(-1), nt.float32, 1, 1),
    "a fold to another dtype": (lambda x, y: (x * y).sum(-1, dtype=nt.float64), nt.float32, 1, 1),
    "one result of another layout": (lambda x, y: (x * 2 + 1) * (y.t() * 3).t().exp(), nt.float32, 2, 1),
    "two values of one shape": (lambda x, y: (x.cumsum(-1) + y.cumsum(-1)) * 2, nt.float32, 3, 1),
    "many results": (lambda x, y: [(x * y + i) * 2 for i in range(40)], nt.float32, None, 2),
}


def counts(plan):
    found = re.search(r": (\d+) steps, (\d+) of them tile programs", plan)
    return int(found[1]), int(found[2])


@pytest.mark.parametrize("name", CASES)
def test_fused(name):
    function, dtype, steps, tiles = CASES[name]
    nt.manual_seed(0)
    x, y = nt.randn(*SIZE).to(dtype), nt.randn(*SIZE).to(dtype)
    x[0, 0], x[0, 1], y[0, 2] = float("nan"), float("inf"), -0.0
    plan, got = compiled_plan(function, x, y)
    n_steps, n_tiles = counts(plan)
    assert n_tiles >= tiles if steps is None else (n_steps, n_tiles) == (steps, tiles), plan
    want = function(x, y)
    for a, b in zip(*((r,) if isinstance(r, nt.Tensor) else r for r in (got, want))):
        assert a.dtype == b.dtype and a.shape == b.shape
        assert bool(((a == b) | ((a != a) & (b != b))).all())


def test_what_does_not_fit_is_split():
    """Too many arrays for one program: several programs, and no operator alone."""
    inputs = [nt.randn(300) for _ in range(60)]

    def f(*inputs):
        total = inputs[0] * 2
        results = []
        for each in inputs[1:]:
            total = (total + each).tanh()
            results.append(total)
        return results

    plan, got = compiled_plan(f, *inputs)
    steps, tiles = counts(plan)
    assert steps == tiles > 1
    assert all(bool((a == b).all()) for a, b in zip(got, f(*inputs)))


@pytest.mark.parametrize("columns", [0, 1, 2, 49, 127, 128, 196, 600, 1024, 1025])
def test_rows_of_any_length(columns):
    """Short rows are computed together and folded one by one; rows beside a number for each are walked row by row."""
    x, y = nt.randn(3, 41, columns), nt.randn(3, 41, 1)
    functions = [
        lambda x, y: (x * y).exp().sum(-1),
        lambda x, y: (x.exp() + y).mean((1, 2)),
        lambda x, y: (x * y + y).exp(),
    ]
    for function in functions:
        plan, got = compiled_plan(function, x, y)
        want = function(x, y)
        assert columns == 0 or counts(plan)[1], plan
        assert bool(((got == want) | ((got != got) & (want != want))).all())
