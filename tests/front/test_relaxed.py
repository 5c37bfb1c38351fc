"""Tensors without dimensions where a number is asked for, and numbers where torch.add and its kin begin."""

from __future__ import annotations

import narthex as nt
import pytest
import torch

CALLS = [
    "full((2,), T(3))", "full((2,), fill_value=T(3.5))", "full((2,), T(3., requires_grad=True))",
    "arange(T(4))",
    "arange(T([4]))", "arange(0, T(4), dtype=M.float32)",
    "div(7, 2, rounding_mode='trunc')", "add(1, 2.5)", "mul(2, 3)",
    "floor_divide(7, 2)", "zeros(4).narrow(0, T(1), T(2))", "zeros(3).clamp(T(1), 2)", "linspace(T(0.), T(1.), 3)",
    "zeros(3, 4).sum(T(1))", "zeros(3, 4).sum(T(1.))", "dropout(ones(3), T(0.), True)", "zeros(T(2), T(3))",
    "zeros([T(2), 3])", "roll(arange(4), T(1))", "zeros(2, 3).transpose(T(0), T(1))",
    "zeros(24).view(2, T(3), 4)", "nn.functional.leaky_relu(T([-1.]), T(.5))", "clamp_min(zeros(2), T(1.))",
]  # fmt: skip


def answer(module, call: str):
    names = {"M": module, "T": module.tensor, **{n: getattr(module, n) for n in ("zeros", "ones", "arange")}}
    try:
        made = eval(f"M.{call}", names)  # noqa: S307
    except (TypeError, RuntimeError) as error:
        return type(error).__name__
    return made.tolist(), str(made.dtype)


@pytest.mark.parametrize("call", CALLS)
def test_call(call: str) -> None:
    assert answer(nt, call) == answer(torch, call)


def test_inside_a_compiled_function() -> None:
    def f(x, n):
        return x.narrow(0, 0, n) * nt.full((1,), n)

    assert nt.equal(nt.compile(f)(nt.arange(5.0), nt.tensor(3)), nt.tensor([0.0, 3.0, 6.0]))
    assert nt.equal(nt.compile(f)(nt.arange(5.0), nt.tensor(2)), nt.tensor([0.0, 2.0]))
