"""Backwards of several Python threads at once: into one leaf, through one graph, beside one that takes gradients away.
Tensors are large, so that kernels give the interpreter's lock away in the middle of all of it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator

import narthex as nt
import pytest

LARGE = 1 << 20
THREADS = 4


@pytest.fixture(autouse=True)
def _impatient() -> Iterator[None]:
    """Threads take turns as often as they can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def at_once(work: Callable[[int], None], count: int = THREADS) -> list[BaseException]:
    """work(k) in threads that begin together; what they raised."""
    barrier, errors = threading.Barrier(count), []

    def run(k: int) -> None:
        try:
            barrier.wait()
            work(k)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def test_no_gradient_is_lost() -> None:
    x = nt.zeros(LARGE, requires_grad=True)
    for _ in range(15):
        x.grad = None
        assert not at_once(lambda k: (x * (k + 1)).sum().backward(), 7)
        assert x.grad is not None and (x.grad == 1 + 2 + 3 + 4 + 5 + 6 + 7).all()


def test_no_retained_gradient_is_lost() -> None:
    x = nt.ones(LARGE, requires_grad=True)
    for _ in range(5):
        y = x * 2
        y.retain_grad()
        z = (y * 3).sum()
        assert not at_once(lambda k, z=z: z.backward(retain_graph=True))
        assert (y.grad == 3 * THREADS).all()


@pytest.mark.parametrize("create_graph", [False, True])
def test_gradients_that_are_taken_away(create_graph: bool) -> None:
    x = nt.zeros(LARGE, requires_grad=True)

    def work(k: int) -> None:
        for _ in range(10):
            if k == 0:
                x.grad = None
            else:
                (x * 1.0).sum().backward(create_graph=create_graph)

    assert not at_once(work)
    x.grad = None


def function(x: nt.Tensor, w: nt.Tensor) -> nt.Tensor:
    return ((x * w).exp() * w).sum()


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_what_is_saved_stays_for_those_who_read_it(compiled: bool) -> None:
    """Nobody retains the graph: the first to be done lets it go. Others, which have begun, get right gradients."""
    x = nt.rand(2 * LARGE, requires_grad=True)

    def f() -> nt.Tensor:
        return x.exp().sum()

    if compiled:
        f = nt.compile(f)
    (expected,) = nt.autograd.grad(f(), [x])
    for _ in range(25):
        y, gradients = f(), []

        def work(k: int, y: nt.Tensor = y, gradients: list[nt.Tensor] = gradients) -> None:
            try:
                (ours,) = nt.autograd.grad(y, [x])
                assert nt.equal(ours, expected)  # and takes memory: what was freed too early is overwritten
                gradients.append(ours)
            except RuntimeError as error:
                assert "backward through the graph a second time" in str(error)

        assert not at_once(work)
        assert gradients


def test_each_gets_the_gradients_that_it_asks_for() -> None:
    x, w = nt.rand(LARGE, requires_grad=True), nt.rand(LARGE, requires_grad=True)
    y = function(x, w)
    leaves, expected = [x, w], nt.autograd.grad(y, [x, w], retain_graph=True)

    def work(k: int) -> None:
        for _ in range(10):
            (ours,) = nt.autograd.grad(y, [leaves[k % 2]], retain_graph=True)
            assert nt.equal(ours, expected[k % 2])

    assert not at_once(work)


def test_a_write_to_a_view_asked_for_in_parts() -> None:
    x, w = nt.rand(LARGE, requires_grad=True), nt.rand(LARGE // 2, requires_grad=True)
    base = x * 1
    base[: LARGE // 2].mul_(w)
    y = base.sum()
    leaves, expected = [x, w], nt.autograd.grad(y, [x, w], retain_graph=True)

    def work(k: int) -> None:
        for _ in range(10):
            (ours,) = nt.autograd.grad(y, [leaves[k % 2]], retain_graph=True)
            assert nt.equal(ours, expected[k % 2])

    assert not at_once(work)
