"""Calls that take the short way: point operators on operands that are alike need no shape rule. Values, sizes,
strides and refusals must be those of PyTorch whichever way a call takes."""

from __future__ import annotations

from typing import Any

import narthex as nt
import numpy as np
import pytest
import torch

LAYOUTS = {
    "plain": lambda m: full(m, 2, 3),
    "spread": lambda m: full(m).expand([2, 3]),
    "row": lambda m: full(m, 1, 3).expand([2, 3]),
    "turned": lambda m: full(m, 3, 2).t(),
    "zero-dim": lambda m: full(m),
    "one row": lambda m: full(m, 3, 1).t(),
    "spread row": lambda m: full(m).expand([1, 3]),
    "empty": lambda m: full(m, 0, 3),
}


def full(m: Any, *size: int) -> Any:
    return m.ones_like(m.empty(size)).mul(0.75)


def facts(f: Any) -> Any:
    try:
        x = f()
    except (RuntimeError, TypeError) as error:
        return type(error).__name__
    return x.tolist(), tuple(x.size()), x.stride(), str(x.dtype).split(".")[-1]


@pytest.mark.parametrize("op", ["add", "mul", "add_", "mul_"])
@pytest.mark.parametrize("second", [*LAYOUTS, 2, 0.5, True])
@pytest.mark.parametrize("first", LAYOUTS)
def test_layouts(first: str, second: Any, op: str) -> None:
    def call(m: Any) -> Any:
        a = LAYOUTS[first](m)
        b = LAYOUTS[second](m) if isinstance(second, str) else second
        return getattr(a, op)(b)

    assert facts(lambda: call(nt)) == facts(lambda: call(torch))


@pytest.mark.parametrize("alpha", [1, 2, 0.5, True])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int32"])
def test_alpha(dtype: str, alpha: Any) -> None:
    def call(m: Any) -> Any:
        a = full(m, 2, 3).to(getattr(m, dtype))
        return a.add(a, alpha=alpha)

    assert facts(lambda: call(nt)) == facts(lambda: call(torch))


FIRST = """
A.add(1, x); A.add(2.5, i); A.add.Tensor(1, x); A.mul(2.5, x); A.mul(2, i); A.sub(1, x); A.sub(1, x, alpha=2)
A.div(1, i); A.div(1.0, x, rounding_mode="floor"); A.floor_divide(7, i); A.true_divide(1, x); A.multiply(True, x)
A.add(1, 1); A.mul(2, 2.5)
A.index_put(x, [None, t.tensor([1])], t.tensor(5.0)); A.index_put(x, [t.tensor([1]), None], t.tensor(5.0))
n / x; n / i; n[0] / x; np.float32(2) / x; np.arange(3)[:, None] / x[:1, :1]
"""


@pytest.mark.parametrize("text", FIRST.strip().replace("\n", "; ").split("; "))
def test_numbers_and_arrays_come_first(text: str) -> None:
    """An operator itself takes a number for its first tensor and None among indices; an array over a tensor is one."""

    def call(m: Any) -> Any:
        x, i = m.arange(1.0, 7.0).reshape(2, 3), m.arange(1, 7).reshape(2, 3)
        return eval(text, {"t": m, "A": m.ops.aten, "x": x, "i": i, "n": np.ones((2, 3)), "np": np})

    assert facts(lambda: call(nt)) == facts(lambda: call(torch))
    assert not isinstance(facts(lambda: call(nt)), str)


def test_overlap_is_refused() -> None:
    x = nt.randn(4, 4)
    with pytest.raises(RuntimeError, match="single memory location"):
        x.add_(x.t())
    assert x._version == 1  # randn wrote it, the refused call did not


def test_write_is_counted() -> None:
    x, y = nt.randn(4, 4), nt.randn(4, 4)
    before = x._version
    x += y
    x.mul_(y.t())
    x.mul_(2.0)
    assert x._version == before + 3


@pytest.mark.parametrize("f", [
    lambda m, x, y: (x * y).sum().backward(),
    lambda m, x, y: (x * y).sum().backward(full(m)),
    lambda m, x, y: ((x + y) * x).sum().backward(),
    lambda m, x, y: (x * y * 2).sum().backward(),
])  # fmt: skip
def test_gradients(f: Any) -> None:
    a, b = torch.randn(4, 4), torch.randn(4, 4)
    grads = []
    for m in (nt, torch):
        x, y = (m.tensor(t.tolist(), requires_grad=True) for t in (a, b))
        for _ in range(2):
            f(m, x, y)
        grads.append((x.grad.tolist(), y.grad.tolist()))
    for ours, theirs in zip(*grads, strict=True):
        assert torch.allclose(torch.tensor(ours), torch.tensor(theirs))
