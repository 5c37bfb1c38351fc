"""What is drawn from distributions is PyTorch's, number for number, and so is the generator's state afterwards."""

import narthex as nt
import pytest
import torch
from both import close, over, same

DRAWS = {
    "bernoulli of chances": lambda t: t.bernoulli(t.full((300,), 0.3)),
    "bernoulli of float64": lambda t: t.bernoulli(t.full((300,), 0.3, dtype=t.float64)),
    "bernoulli of p": lambda t: t.bernoulli(t.zeros(300), 0.7),
    "bernoulli_ of chances": lambda t: t.zeros(4, 5, dtype=t.int64).bernoulli_(t.linspace(0, 1, 5)),
    "bernoulli_ transposed": lambda t: t.zeros(5, 4).t().bernoulli_(t.linspace(0, 1, 5)),
    "geometric_": lambda t: t.zeros(500).geometric_(0.3),
    "geometric_ of int64": lambda t: t.zeros(500, dtype=t.int64).geometric_(0.05),
    "random_": lambda t: t.zeros(50).random_(),
    "random_ of float64": lambda t: t.zeros(50, dtype=t.float64).random_(),
    "random_ of int64": lambda t: t.zeros(50, dtype=t.int64).random_(),
    "random_ of int32": lambda t: t.zeros(50, dtype=t.int32).random_(),
    "random_ of uint8": lambda t: t.zeros(50, dtype=t.uint8).random_(),
    "random_ of bool": lambda t: t.zeros(50, dtype=t.bool).random_(),
    "random_ of float16": lambda t: t.zeros(50, dtype=t.float16).random_(),
    "random_ to": lambda t: t.zeros(50).random_(17),
    "random_ from to": lambda t: t.zeros(50, dtype=t.int16).random_(-17, 1000),
    "random_ from": lambda t: t.zeros(50).random_(100, None),
    "random_ wide": lambda t: t.zeros(50, dtype=t.int64).random_(-(2**62), 2**62),
    "random_ of all bits": lambda t: t.zeros(50, dtype=t.int64).random_(-(2**63), None),
    "random_ of bfloat16 from where it has no whole numbers": lambda t: t.zeros(50).bfloat16().random_(-4116, 4111),
    "random_ of float16 likewise": lambda t: t.zeros(50).half().random_(2049, 2071),
    "random_ rounds": lambda t: t.zeros(50).random_(0, 2**24 + 3),
    "randint_like": lambda t: t.randint_like(t.zeros(3, 4), 10),
    "randint_like from": lambda t: t.randint_like(t.zeros(3, 4), 5, 10, dtype=t.int64),
    "normal of means": lambda t: t.normal(t.arange(20.0), 2.0),
    "normal of deviations": lambda t: t.normal(0.5, t.arange(1.0, 21.0)),
    "normal of both": lambda t: t.normal(t.arange(5.0).view(5, 1), t.arange(1.0, 5.0)),
    "normal of a size": lambda t: t.normal(0.5, 2.0, (4, 5)),
    "poisson": lambda t: t.poisson(t.linspace(0, 60, 400)),
    "poisson of float64": lambda t: t.poisson(t.linspace(0, 60, 400, dtype=t.float64)),
}
NEARLY = {
    "cauchy_": lambda t: t.zeros(300).cauchy_(1.0, 2.0),
    "log_normal_": lambda t: t.zeros(300).log_normal_(0.5, 0.7),
    "log_normal_ after an odd draw": lambda t: (t.randn(3), t.zeros(5).log_normal_())[1],
}


def draw(call):
    """What both draw, and both generators' states."""
    nt.manual_seed(11), torch.manual_seed(11)
    mine, theirs = call(nt), call(torch)
    return mine, theirs, over(nt.get_rng_state()), torch.get_rng_state()


@pytest.mark.parametrize("name", DRAWS)
def test_bits(name):
    mine, theirs, state, wanted = draw(DRAWS[name])
    same(mine, theirs)
    assert torch.equal(state, wanted)


@pytest.mark.parametrize("name", NEARLY)
def test_numbers(name):
    mine, theirs, state, wanted = draw(NEARLY[name])
    close(mine, theirs, 1e-6, 1e-6)
    assert torch.equal(state, wanted)


MISTAKES = {
    "geometric_": lambda t: t.zeros(3).geometric_(0),
    "cauchy_": lambda t: t.zeros(3).cauchy_(0, -1),
    "log_normal_": lambda t: t.zeros(3).log_normal_(0, -1),
    "random_": lambda t: t.zeros(3).random_(3, 3),
    "random_ to 0": lambda t: t.zeros(3).random_(0),
    "random_ between two numbers of bfloat16": lambda t: t.zeros(3).bfloat16().random_(2049, 2050),
    "random_ too wide": lambda t: t.zeros(3, dtype=t.int8).random_(0, 300),
    "chance": lambda t: t.bernoulli(t.tensor([2.0])),
    "rate": lambda t: t.poisson(t.tensor([-1.0])),
    "deviation": lambda t: t.normal(t.zeros(2), -1.0),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes(mistake):
    with pytest.raises(Exception) as theirs:  # noqa: PT011  (whichever PyTorch raises)
        MISTAKES[mistake](torch)
    with pytest.raises(type(theirs.value)) as mine:
        MISTAKES[mistake](nt)
    assert str(theirs.value).split("  (")[0] in str(mine.value)
