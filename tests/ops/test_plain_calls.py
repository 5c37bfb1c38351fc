"""Calls that take the short way: point operators on operands that are alike need no shape rule. Values, sizes,
strides and refusals must be those of PyTorch whichever way a call takes."""

from __future__ import annotations

from typing import Any

import narthex as nt
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
