"""Memory of compiled graphs: what a plan says, that it reuses, and that a replay asks for none."""

import random
import re

import narthex as nt
import pytest
from narthex import _C

from .gpt import gpt


def test_plan_of_a_training_step():
    """The plan of each graph takes what is alive at its fullest step and no more; what stays in between is told."""
    made = []

    def backend(gm, example_inputs):
        made.append(gm.graph._c.aot(True).compile("max-autotune", nt.device("cpu")))
        return made[0]

    parts = gpt(nt, blocks=3, heads=4, width=64, vocabulary=65, length=32)
    step = nt.compile(parts.GPT(), backend=backend)
    step(*parts.batch(0, rows=4)).backward()
    text = made[0].plan()
    plans = re.findall(r"feature (\d+) bytes, (\d+) of them alive at once", text)
    assert len(plans) == 2 and "kept for the backward: " in text
    for part, (planned, alive) in zip(text.split("backward: program"), plans):
        every = sum(int(size) for size in re.findall(r"feature\+\d+: (\d+) bytes", part))
        assert planned == alive and 5 * int(planned) < every


def allocations(function, most=16):
    """How many blocks `function` allocates; the run that finds out goes through."""
    for n in range(most):
        _C.alloc_fail_at(n + 1)
        try:
            function()
        except MemoryError:
            continue
        finally:
            failed = _C.alloc_failed()
            _C.alloc_fail_at(0)
        if not failed:
            return n
    return most


def test_what_is_replayed_is_the_program():
    """Tiles, sums in products, parts written in place: one lowering for both modes, and the same bits."""

    def f(x, w, b):
        y = (x @ w + b).tanh() * b + (x * w).exp()
        y[2] = b
        b[3:5] = x[0, :2]
        return y.sum(1), y

    made, results = {}, {}
    for mode in ("max-autotune", "reduce-overhead"):

        def backend(gm, example_inputs, mode=mode):
            made[mode] = gm.graph._c.aot(False).compile(mode)
            return made[mode]

        nt.manual_seed(0)
        x, w, b = nt.randn(40, 40), nt.randn(40, 40), nt.randn(40)
        results[mode] = [*nt.compile(f, backend=backend)(x, w, b), b]
    text = made["reduce-overhead"].plan()
    plan, recorded = text.split("recorded: ")
    assert plan == made["max-autotune"].plan()
    assert "= tile(" in plan and "aten::copy_(result" in plan and "in2 f32[40] written" in plan, plan
    assert int(recorded.split()[0]) == len(re.findall(r"^  \d+: ", plan, re.M))
    for one, other in zip(*results.values(), strict=True):
        assert nt.equal(one, other)


@pytest.mark.parametrize("mode", ["max-autotune", "reduce-overhead"])
def test_a_replay_allocates_nothing(mode):
    """Results come from free lists; a call that will be differentiated has one record of what it saved."""

    def f(x, w, b):
        return nt.relu(x * w + b).tanh().sum()

    compiled = nt.compile(f, mode=mode, fullgraph=True)
    x, w, b = nt.randn(8, 8), nt.randn(8, 8, requires_grad=True), nt.randn(8, requires_grad=True)

    def forward():
        with nt.no_grad():
            compiled(x, w, b)

    def step():
        compiled(x, w, b).backward()

    for _ in range(4):
        step()
        forward()
    assert allocations(forward) == 0
    assert allocations(step) <= 1


def compiled_plan(f, *inputs):
    """The plan of f, compiled for the engine, and its results."""
    made = []

    def backend(gm, example_inputs):
        made.append(gm.graph._c.aot(any(x.requires_grad for x in inputs)).compile("max-autotune", nt.device("cpu")))
        return made[0]

    results = nt.compile(f, backend=backend)(*inputs)
    return made[0].plan(), results


@pytest.mark.parametrize("k", [3, 300])
def test_a_product_and_its_sum_are_one_step(k):
    """x + a @ b has the bits of eager mode, from either side and through views."""
    a, b, x = nt.randn(24, k), nt.randn(k, 40), nt.randn(2, 12, 40)
    for f in (
        lambda a, b, x: x + (a @ b).view(2, 12, 40),
        lambda a, b, x: (a @ b).view(2, 12, 40) + x,
        lambda a, b, x: (x + nt.nn.functional.linear(a.view(2, 12, k), b.t())).relu().sum(),
    ):
        plan, result = compiled_plan(f, a, b, x)
        assert bool((result == f(a, b, x)).all())
        assert "aten::mm(" not in plan or "tile" in plan or _C.level_name() == "base"


def test_any_product_and_its_sum_have_the_bits_of_both():
    """Rows, columns and vectors, in every layout: what a library multiplies takes no sum."""
    draw = random.Random(0)
    layouts = (lambda x: x, lambda x: x.t().contiguous().t(), lambda x: x.repeat_interleave(2, -1)[..., ::2])
    for _ in range(150):
        m, n, k = draw.choice((1, 1, 5, 17, 130)), draw.choice((1, 2, 17, 130)), draw.choice((2, 7, 64, 300, 1500))
        dtype = draw.choice((nt.float32, nt.float32, nt.float64))
        a, b = (draw.choice(layouts)(nt.randn(sizes, dtype=dtype)) for sizes in ((m, k), (k, n)))
        x = nt.randn(m, n, dtype=dtype)
        if m == 1 and draw.random() < 0.5:
            a, x = a[0], x[0]
        _, result = compiled_plan(lambda a, b, x: a @ b + x, a, b, x)
        assert nt.equal(result, a @ b + x), (a.shape, a.stride(), b.shape, b.stride(), dtype)


def test_a_product_and_its_sum_stay_apart():
    """Where the product is wanted, the sum is broadcast or weighted, or what is added is written in between."""
    a, b, x = nt.randn(6, 5), nt.randn(5, 4), nt.randn(6, 4)

    def written(a, b, x):
        y = a @ b
        x.mul_(2)
        return y + x, x

    for f in (
        lambda a, b, x: (lambda y: (y + x, y))(a @ b),
        lambda a, b, x: (a @ b + x[:1],),
        lambda a, b, x: (nt.add(a @ b, x, alpha=2),),
        written,
    ):
        want = f(a, b, x.clone())
        plan, results = compiled_plan(f, a, b, x.clone())
        assert all(bool((r == w).all()) for r, w in zip(results, want))


def test_dear_point_operators_are_saved():
    """The backward reads what gelu gave; it has no second gelu."""
    x, w = nt.randn(8, 8, requires_grad=True), nt.randn(8, 8, requires_grad=True)
    made = []

    def backend(gm, example_inputs):
        made.append(gm.graph._c.aot(True).compile("max-autotune", nt.device("cpu")))
        return made[0]

    nt.compile(lambda x, w: (nt.nn.functional.gelu(x) @ w).sum(), backend=backend)(x, w).backward()
    forward, backward = made[0].plan().split("backward: program")
    assert "aten::gelu(" in forward and "aten::gelu(" not in backward
