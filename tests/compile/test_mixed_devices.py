"""Graphs on two devices: what the CPU makes from nothing moves, other graphs run call by call; results are eager's."""

import narthex as nt
import narthex.compat.torch_npu  # noqa: F401  (adds npu:0)
import pytest

MODES = ("max-autotune", "reduce-overhead")


def mask(t, x, c):
    allowed = t.tril(t.ones(4, 4)).to(x.device)
    return x.masked_fill(allowed == 0, float("-inf")).softmax(-1)


def positions(t, x, c):
    places = t.arange(4, dtype=t.float32).unsqueeze(0).expand(4, 4)
    return x + places.to("npu:0") * 2 + t.zeros(4).to("npu:0")


def number(t, x, c):
    return x * t.full((), 2.5) + c.to("npu:0").sum()


def input_of_the_cpu(t, x, c):
    return x * c.to("npu:0"), c * 2


def result_on_the_cpu(t, x, c):
    places = t.arange(4)
    return (x * places.to("npu:0")).cpu() + 1, places * 2


def drawn_on_the_cpu(t, x, c):
    return x + t.randn(4, 4).to("npu:0")


def both_written(t, x, c):
    c.mul_(2)
    y = x * 1
    y[0] = c.to("npu:0")
    return y.sum(), c


MOVES = (mask, positions)
STAYS = (number, input_of_the_cpu, result_on_the_cpu, drawn_on_the_cpu, both_written)


def run(function, called):
    nt.manual_seed(0)
    x, c = nt.randn(4, 4).to("npu:0").requires_grad_(), nt.arange(4.0)
    results = called(nt, x, c)
    results = results if isinstance(results, tuple) else (results,)
    results[0].sum().backward()
    return [*results, c, x.grad]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("function", MOVES + STAYS)
def test_equals_eager(function, mode):
    compiled = nt.compile(function, mode=mode, fullgraph=True)
    for _ in range(2):
        for mine, eager in zip(run(function, compiled), run(function, function), strict=True):
            assert mine.device == eager.device and mine.dtype is eager.dtype
            assert (mine.cpu() - eager.cpu()).abs().max().item() <= 1e-6


@pytest.mark.parametrize("function", MOVES + STAYS)
def test_plan_says_how_it_runs(function):
    plans = []

    def backend(gm, example_inputs):
        compiled = gm.graph._c.aot(False).compile("max-autotune", nt.device("npu:0"))
        plans.append(compiled.plan())
        return compiled

    with nt.no_grad():
        nt.compile(function, backend=backend)(nt, nt.randn(4, 4).to("npu:0"), nt.arange(4.0))
    assert len(plans) == 1
    assert ("runs call by call: " in plans[0]) == (function in STAYS)
    assert ("_to_copy" in plans[0]) == (function in STAYS)  # in the others it is a part of a tile program, or nothing


RANDOM = {
    "rand": lambda t, x: x + t.rand(4, device=x.device),
    "randint": lambda t, x: x + t.randint(0, 5, (4,), device=x.device),
    "uniform_": lambda t, x: (x * 1).uniform_() * 2,
    "two": lambda t, x: t.rand(4, device=x.device) - t.randn(4, device=x.device) * x,
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", RANDOM)
def test_operators_that_the_device_lacks(name, mode):
    """Eager mode computes them on the CPU: so does a compiled function, call by call, with the same numbers."""
    compiled, x, results = nt.compile(RANDOM[name], mode=mode, fullgraph=True), nt.ones(4).to("npu:0"), []
    for function in (compiled, RANDOM[name]):
        nt.manual_seed(0)
        results.append([function(nt, x).cpu() for _ in range(2)])
    for mine, eager in zip(*results, strict=True):
        assert bool((mine == eager).all())


def test_a_plan_says_what_the_device_lacks():
    plans = []

    def backend(gm, example_inputs):
        compiled = gm.graph._c.aot(False).compile("max-autotune", nt.device("npu:0"))
        plans.append(compiled.plan())
        return compiled

    nt.compile(lambda m, x: m.poisson(x) + 1, backend=backend)(nt, nt.ones(4).to("npu:0"))
    assert "runs call by call: the device has no kernel for aten::" in plans[0]
