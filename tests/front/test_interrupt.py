"""Ctrl-C at any moment: KeyboardInterrupt, nothing lost, the next step right. More rounds: make check-hostile."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import narthex as torch
import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


def test_training_steps():
    """In a process of its own, so that no signal can meet the tests' own."""
    run = subprocess.run(
        [sys.executable, "-m", "tests.hostile.interrupts", "5"], cwd=ROOT, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout + run.stderr[-3000:]


@pytest.fixture
def handler():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupting(x):
    for _ in range(10):
        x = x + 1
    signal.raise_signal(signal.SIGINT)
    return x


@pytest.mark.parametrize("compiled", [False, True])
def test_in_forward(handler, compiled):
    """Also where the signal comes while a function is traced; afterwards the function can be compiled."""
    function = torch.compile(interrupting) if compiled else interrupting
    with pytest.raises(KeyboardInterrupt):
        function(torch.ones(3))
    signal.signal(signal.SIGINT, lambda number, frame: None)
    assert function(torch.ones(3)).tolist() == [11.0] * 3


def test_in_backward(handler):
    """Between two nodes: the leaf got nothing, and the next backward is right."""
    x = torch.ones(300, 300, requires_grad=True)
    y = (x * 2) * 3
    y.register_hook(lambda g: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        y.sum().backward()
    assert x.grad is None and torch.is_grad_enabled()
    (x * 6).sum().backward()
    assert x.grad.eq(6).all()


def test_in_a_long_trace(handler):
    def endless(x):
        n = 0
        while True:
            n += 1
            if n == 500:
                signal.raise_signal(signal.SIGINT)
        return x

    with pytest.raises(KeyboardInterrupt):
        torch.compile(endless)(torch.ones(3))
