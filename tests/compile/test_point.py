"""Point operators in both modes, of every kind that is run in a way of its own: what a recording finds out once must be
true of later calls, whose inputs lie elsewhere and whose earlier results are kept."""

import narthex as nt
import pytest
from narthex.nn import functional as F

FUNCTIONS = {
    "numbers": lambda x, y: (x * 2.5 + 3, 1 / (x + 9), x**2, nt.where(x > 0, x, 7.0)),
    "dtypes": lambda x, y: (x + y.to(nt.float64), x * y.to(nt.int64), x.to(nt.bfloat16) * 3),
    "one element": lambda x, y: (x * y.sum(), x / y.max(), x + x.mean()),
    "truth": lambda x, y: (x > y, (x > 0) & (y > 0), x.eq(y)),
    "division": lambda x, y: (x.to(nt.int64) // 3, x.to(nt.int64) // (y.to(nt.int64).abs() + 1), x % 2),
    "layouts": lambda x, y: (x.t() + y.t(), x[:, ::2] * 2, x[0] + y),
    "constants": lambda x, y: (nt.add(x, y, alpha=3), nt.sub(x, y, alpha=0.5), nt.addcmul(x, y, y, value=2)),
    "a product and a sum": lambda x, y: (
        x * y + x,
        x - x * y,
        x * y - 0.1,
        0.1 - 0.7 * x,
        x.double() * y.double() - x.double(),
        x + x[0] * y[0, 0],
    ),
    "a product for two sums": lambda x, y: (lambda xy: (xy + x, xy - y, xy + xy))(x * y),
    "a product and other sums": lambda x, y: (
        nt.add(x, x * y, alpha=2),
        x.half() * y.half() + x.half(),
        x.int() * 3 + 1,
    ),
    "words": lambda x, y: (F.gelu(x), F.gelu(x, approximate="tanh"), x.clamp(min=-1, max=1)),
}


@pytest.mark.parametrize("mode", ["max-autotune", "reduce-overhead"])
@pytest.mark.parametrize("shape", [(4, 4), (300, 301)])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_calls_one_after_the_other(mode, shape, name):
    function = FUNCTIONS[name]
    compiled = nt.compile(function, mode=mode, fullgraph=True)
    nt.manual_seed(0)
    inputs = [(nt.randn(*shape) * 3, nt.randn(*shape)) for _ in range(3)]
    results = [compiled(*each) for each in inputs]
    for each, got in zip(inputs, results):
        for a, b in zip(got, function(*each)):
            assert a.dtype == b.dtype and a.shape == b.shape and a.tolist() == b.tolist()
