"""What must be refused or stay right where memory is shared, resized, collected or waited for."""

from __future__ import annotations

import gc
import threading
import time
import weakref

import narthex as nt
import numpy as np
import pytest
from narthex import _C
from narthex.compat import torch_npu  # noqa: F401  (adds npu:0)


def leaf(*values: float):
    return nt.tensor(list(values)).requires_grad_()


def test_foreign_memory_with_negative_strides_is_not_written_beyond() -> None:
    block = np.arange(4.0)
    x = nt.randn(20000).to(nt.float64)
    y = nt.add(x, 1.0, out=nt.from_dlpack(block[::-1]))
    assert y.tolist() == (x + 1.0).tolist() and block.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_out_that_is_an_input_is_not_resized() -> None:
    x = nt.tensor([0.0])
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        nt.add(x, nt.tensor([1.0, 2.0]), out=x)
    assert x.tolist() == [0.0]


def test_writing_a_view_that_autograd_did_not_see() -> None:
    y = leaf(1.0, 2.0) * 2
    with nt.no_grad():
        v = y.view(2, 1)
    with pytest.raises(RuntimeError, match="no_grad mode"):
        v.mul_(3.0)
    with nt.no_grad():
        v.mul_(3.0)
    assert y.tolist() == [6.0, 12.0]


@pytest.mark.parametrize("mode", ["max-autotune", "reduce-overhead"])
def test_compiled_outputs_that_share_memory(mode: str) -> None:
    """Writing one of them never leaves the other with an old gradient."""

    def f(a):
        y = a * 2
        return y, y.view(2, 1)

    a = leaf(1.0, 2.0)
    y, v = nt.compile(f, mode=mode)(a)
    v[0].mul_(3.0)
    y.sum().backward()
    assert y.tolist() == [6.0, 4.0] and a.grad.tolist() == [6.0, 2.0]


def test_collector_leaves_what_c_holds() -> None:
    x = leaf(0.0, 0.0, 0.0)
    g = nt.tensor([1.0, 2.0, 3.0])
    g.tag = [g, "kept"]
    x.grad = g
    del g
    gc.collect()
    assert x.grad.tag[1] == "kept"


def test_collector_takes_cycles_that_nobody_holds() -> None:
    g = nt.tensor([1.0])
    g.tag = [g]
    alive = weakref.ref(g)
    del g
    gc.collect()
    assert alive() is None


def own_hook() -> nt.Tensor:
    x = leaf(1.0)
    x.register_hook(lambda g: x * g)
    return x


def own_hook_of_a_result() -> nt.Tensor:
    y = leaf(1.0) * 2
    y.register_hook(lambda g: print(y, g))
    return y


def own_hook_after_accumulation() -> nt.Tensor:
    x = leaf(1.0)

    def clear(_) -> None:
        x.grad.zero_()

    x.register_post_accumulate_grad_hook(clear)
    x.sum().backward()
    return x


class Keeps(nt.autograd.Function):
    """Its context holds its result, by an attribute of another object."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.box = [x * 2]
        return ctx.box[0]

    @staticmethod
    def backward(ctx, g):
        return g * 2


@pytest.mark.parametrize(
    "make", [own_hook, own_hook_of_a_result, own_hook_after_accumulation, lambda: Keeps.apply(leaf(1.0))]
)
def test_collector_takes_cycles_through_the_graph(make) -> None:
    made = make()
    alive = weakref.ref(made)
    gc.collect()
    assert alive() is made
    later = made * 3 if made.grad_fn else None
    del made
    gc.collect()
    assert later is None or later.grad_fn.next_functions[0][0] is not None
    if later is not None:
        later.sum().backward()
    del later
    gc.collect()
    assert alive() is None


def test_collector_leaves_what_a_graph_holds() -> None:
    called = []

    def hooked():
        y = leaf(1.0) * 2
        y.register_hook(lambda g: called.append(y.tolist()))
        return y * 3

    z = hooked()
    gc.collect()
    z.backward()
    assert called == [[2.0]]


def test_retained_gradient_survives_writing_in_place() -> None:
    y = leaf(1.0, 2.0) * 2
    y.retain_grad()
    y.mul_(3.0)
    y.sum().backward()
    assert y.grad.tolist() == [1.0, 1.0]


def test_data_keeps_a_dtype_that_can_have_gradients() -> None:
    x = leaf(1.0)
    with pytest.raises(RuntimeError, match="floating point"):
        x.data = nt.tensor([1])


def test_leaf_that_no_longer_requires_grad_gets_none() -> None:
    x = leaf(1.0)
    y = (x * 2).sum()
    x.requires_grad = False
    y.backward()
    assert x.grad is None


def test_other_threads_run_while_a_device_is_waited_for() -> None:
    x = nt.randn(4, 4).to("npu:0")
    _C.synchronize("npu:0")
    ticks = 0
    done = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not done.is_set():
            ticks += 1
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    _C.device_control("npu", "slow_copy_us", 200000)
    try:
        before = ticks
        x.to("cpu")
        during = ticks - before
    finally:
        _C.device_control("npu", "slow_copy_us", 0)
        done.set()
        thread.join()
    assert during > 10
