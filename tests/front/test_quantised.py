"""Rounding to few integers with gradients, products of groups, and dtypes that are names alone, beside PyTorch."""

from __future__ import annotations

import re
from typing import Any

import narthex as nt
import pytest
import torch

from tests.ops.op_db import over


def told(call: Any, m: Any) -> Any:
    try:
        return call(m)
    except Exception as error:
        return type(error).__name__, str(error).split("\n")[0]


def values() -> torch.Tensor:
    """Between the integers, at them, half way and far outside."""
    ties = torch.arange(-8, 24) * 0.25
    return torch.cat([ties, torch.tensor([6e4, -6e4, 77.5, -77.5]), torch.randn(28)]).view(4, 16)


def pair(theirs: torch.Tensor) -> dict[Any, Any]:
    theirs = theirs.requires_grad_(theirs.is_floating_point())
    return {torch: theirs, nt: over(theirs)}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize("zero_point", [0, 3, 15])
@pytest.mark.parametrize("tensors", [False, True])
def test_per_tensor(dtype: torch.dtype, zero_point: int, tensors: bool) -> None:
    torch.manual_seed(0)
    x, made = pair(values().to(dtype)), {}
    for m in (torch, nt):
        scale, zero = (m.tensor([0.5]), m.tensor([zero_point], dtype=m.int32)) if tensors else (0.5, zero_point)
        y = m.fake_quantize_per_tensor_affine(x[m], scale, zero, 0, 15)
        y.backward(m.ones_like(y))
        made[m] = y.tolist(), x[m].grad.tolist(), str(y.dtype)
    assert made[nt] == made[torch]


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("zeros", ["int32", "float32"])
def test_per_channel(axis: int, zeros: str) -> None:
    torch.manual_seed(0)
    x = pair(values()[:, :4].contiguous())

    def run(m: Any) -> Any:
        scale, zero = m.tensor([0.5, 0.25, 1.0, 0.1]), m.tensor([0, 3, 7, 15]).to(getattr(m, zeros))
        y = m.fake_quantize_per_channel_affine(x[m], scale, zero, axis, 0, 15)
        y.backward(m.ones_like(y))
        return y.tolist(), x[m].grad.tolist()

    assert told(run, nt) == told(run, torch)


BAD = {
    "zero point outside": lambda m, x: m.fake_quantize_per_tensor_affine(x, 0.1, 30, 0, 15),
    "ends in the wrong order": lambda m, x: m.fake_quantize_per_tensor_affine(x, 0.1, 3, 15, 0),
    "of integers": lambda m, x: m.fake_quantize_per_tensor_affine(x.long(), 0.1, 3, 0, 15),
    "zero points of int64": lambda m, x: m.fake_quantize_per_channel_affine(x, m.ones(3), m.tensor([1, 2, 3]), 0, 0, 9),
    "too few scales": lambda m, x: m.fake_quantize_per_channel_affine(x, m.ones(2), m.zeros(2), 0, 0, 9),
    "one scale more": lambda m, x: m.fake_quantize_per_channel_affine(x, m.ones(3), m.zeros(2), 0, 0, 9),
    "no such dimension": lambda m, x: m.fake_quantize_per_channel_affine(x, m.ones(3), m.zeros(3), 5, 0, 9),
    "dequantize": lambda m, x: m.dequantize(x.half()).dtype,
    "dequantize, the method": lambda m, x: x.dequantize().dtype,
}


@pytest.mark.parametrize("name", BAD)
def test_texts(name: str) -> None:
    def run(m: Any) -> Any:
        return str(BAD[name](m, m.ones(3, 4)))

    assert told(run, nt) == told(run, torch)


def test_rounding_is_one_graph() -> None:
    def f(x: Any) -> Any:
        return nt.fake_quantize_per_tensor_affine(x * 2, 0.5, 3, 0, 15).square()

    x, again = (over(values()[:2].requires_grad_()) for _ in range(2))
    eager, compiled = f(x), nt.compile(f, fullgraph=True)(again)
    eager.sum().backward()
    compiled.sum().backward()
    assert nt.equal(eager, compiled) and nt.equal(x.grad, again.grad)


SHAPES = {
    "rows": ((6, 16), (2, 16, 8), [2, 6]),
    "no rows in a group": ((6, 16), (3, 16, 8), [2, 2, 6]),
    "columns": ((2, 8, 16), (16, 8), [4, 8]),
    "inner places": ((8, 16), (16, 8), [4, 16]),
    "three dimensions": ((2, 6, 16), (2, 16, 8), None),
    "no offsets": ((6, 16), (2, 16, 8), None),
    "too many offsets": ((6, 16), (2, 16, 8), [2, 4, 6]),
    "other inner size": ((6, 16), (2, 12, 8), [2, 6]),
    "offsets beside three dimensions": ((2, 6, 16), (2, 16, 8), [2, 6]),
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_grouped_mm(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    size_a, size_b, offs = SHAPES[name]
    a, b = pair(torch.randn(size_a).to(dtype)), pair(torch.randn(size_b).to(dtype))

    def run(m: Any) -> Any:
        ends = None if offs is None else m.tensor(offs, dtype=m.int32)
        made = m.nn.functional.grouped_mm(a[m], b[m], offs=ends)
        made.backward(m.ones_like(made))
        return [torch.from_dlpack(one.detach()) for one in (made, a[m].grad, b[m].grad)]

    mine, theirs = told(run, nt), told(run, torch)
    if isinstance(theirs, tuple):
        assert mine == theirs
    else:
        torch.testing.assert_close(mine, theirs, rtol=2e-2 if dtype is torch.bfloat16 else 1e-5, atol=1e-2)


NAMED = "qint8 quint8 qint32 quint4x2 quint2x4 bits8 bits16 bits1x8 bits2x4 bits4x2 int1 int4 uint1 uint4"


@pytest.mark.parametrize("name", [*NAMED.split(), "bit", "float4_e2m1fn_x2"])
def test_names_of_dtypes(name: str) -> None:
    def facts(m: Any) -> Any:
        dtype = getattr(m, name)
        assert isinstance(dtype, m.dtype) and dtype in {dtype: 1} and dtype is getattr(m, str(dtype).rpartition(".")[2])
        words = [getattr(dtype, word) for word in ("is_floating_point", "is_complex", "itemsize", "abbr")]
        return str(dtype), words, told(lambda m: dtype.is_signed, m)

    assert facts(nt) == facts(torch)
    for call in (lambda d: nt.empty(2, dtype=d), lambda d: nt.ones(2).to(d), lambda d: nt.tensor([1], dtype=d)):
        with pytest.raises(TypeError, match=re.escape("torch.dtype")):
            call(getattr(nt, name))
