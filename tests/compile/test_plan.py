"""Memory of compiled graphs: what a plan says, that it reuses, and that a replay asks for none."""

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
