"""repr() of tensors is PyTorch's, character by character."""

import math
import random

import narthex as nt
import pytest
import torch

DTYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")
KINDS = ("normal", "whole", "scaled", "large whole", "infinite", "zeros", "tiny")


def make(rng: random.Random) -> tuple:
    """The same tensor in Narthex and in PyTorch, from nested lists."""
    shape = [rng.choice((0, 1, 2, 3, 5, 9)) for _ in range(rng.choice((0, 1, 1, 2, 2, 3)))]
    kind, dtype = rng.choice(KINDS), rng.choice(DTYPES)
    power = rng.randint(-9, 9)

    def value():
        number = rng.gauss(0, 3)
        if kind in ("whole", "large whole") or not dtype.startswith(("f", "bf")):
            number = float(round(number * (10 ** rng.randint(3, 9) if kind == "large whole" else 1)))
        if kind == "scaled":
            number *= 10.0**power
        if kind == "infinite" and rng.random() < 0.3:
            number = rng.choice((math.inf, -math.inf, math.nan))
        if kind == "zeros":
            number = 0.0
        if kind == "tiny":
            number *= 1e-5
        if dtype == "bool":
            return number > 0
        if not dtype.startswith(("f", "bf")):
            return 0 if not math.isfinite(number) else int(number) % 100 - (0 if dtype == "uint8" else 50)
        return number

    def nested(sizes):
        return value() if not sizes else [nested(sizes[1:]) for _ in range(sizes[0])]

    numbers = nested(shape)
    return nt.tensor(numbers, dtype=getattr(nt, dtype)), torch.tensor(numbers, dtype=getattr(torch, dtype))


@pytest.fixture
def options():
    yield
    for module in (nt, torch):
        module.set_printoptions(profile="default")


@pytest.mark.parametrize(
    "setting",
    [{}, {"precision": 2, "linewidth": 60, "edgeitems": 2, "threshold": 20}, {"sci_mode": True}, {"sci_mode": False}],
)
def test_same_text(setting, options):
    for module in (nt, torch):
        module.set_printoptions(**setting)
    seed = 20 + len(setting)
    rng = random.Random(seed)
    for _ in range(400):
        ours, theirs = make(rng)
        if tuple(ours.shape) == tuple(theirs.shape):
            assert repr(ours) == repr(theirs), f"seed {seed}, {theirs.tolist()}"


def test_summary_and_suffixes(options):
    for shape in ((1200,), (40, 50), (11, 12, 13)):
        nt.manual_seed(3), torch.manual_seed(3)
        assert repr(nt.randn(*shape)) == repr(torch.randn(*shape))
    nt.manual_seed(3), torch.manual_seed(3)
    ours, theirs = nt.randn(2, 2, requires_grad=True), torch.randn(2, 2, requires_grad=True)
    for a, b in (
        (ours, theirs),
        (ours * 2, theirs * 2),
        ((ours * 2).sum(), (theirs * 2).sum()),
        (ours.t(), theirs.t()),
    ):
        assert repr(a) == repr(b)
    assert f"{nt.tensor(2.5):.3f}" == "2.500"
    assert repr(nt.nn.Parameter(nt.tensor([1.0]))) == repr(torch.nn.Parameter(torch.tensor([1.0])))


def test_unknown_profile():
    with pytest.raises(ValueError, match="profile"):
        nt.set_printoptions(profile="long")
