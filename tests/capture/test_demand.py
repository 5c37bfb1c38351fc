"""Only rows that are read are computed (src/pass/demand.c): the bits are those of the graph as it was recorded."""

from __future__ import annotations

import random
import re
from typing import Any

import narthex as nt
import narthex.nn.functional as F
import pytest
from narthex import _C

WIDE = 320  # so that what is saved pays
LEAVES_OUT = _C.level_name() != "base"  # there a library multiplies


def compiled_and_recorded(function: Any, *inputs: Any, mode: str = "max-autotune") -> tuple[Any, Any]:
    """A program of the function's functional graph, and that graph, which calls operator by operator."""
    captured = []

    def backend(gm: Any, example_inputs: Any) -> Any:
        captured.append((gm, example_inputs))
        return gm.forward

    with nt.no_grad():
        nt.compile(function, backend=backend)(*inputs)
    ((gm, taken),) = captured
    aot = gm.graph._c.aot(False)
    program = aot.compile(mode)
    with nt.no_grad():
        for got, want in zip(program(*taken), aot.forward(*taken), strict=True):
            assert got.shape == want.shape
            assert got.stride() == want.stride()
            assert got.equal(want)
    return program, aot.forward


def rows_multiplied(plan: str) -> list[int]:
    return [int(rows) for rows in re.findall(r"f32\[(\d+), \d+\][^=\n]* = aten::(?:addmm|mm)\(", plan)]


def block(seed: int) -> Any:
    """A random stack of what is done to each row apart, with residuals."""
    draw = random.Random(seed)
    nt.manual_seed(seed)
    weights = [nt.nn.Parameter(nt.randn(WIDE, WIDE) / 18) if k % 2 else nt.randn(WIDE, WIDE) / 18 for k in range(4)]
    bias, scale = nt.randn(WIDE), nt.rand(WIDE)

    def layer(x: Any, kind: str, k: int) -> Any:
        if kind == "linear":
            return F.linear(x, weights[k], bias if k % 2 else None)
        if kind == "norm":
            return F.layer_norm(x, (WIDE,), scale, bias)
        if kind == "rms":
            return x * nt.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * scale
        if kind == "softmax":
            return F.softmax(x, -1)
        if kind == "heads":
            return x.view(*x.shape[:-1], 4, WIDE // 4).transpose(-1, -2).reshape(x.shape)
        if kind == "gelu":
            return F.gelu(x) + bias
        return x * 2 - x.tanh()

    kinds = ["linear", "norm", "rms", "softmax", "heads", "gelu", "point"]
    chosen = [draw.choice(kinds) for _ in range(draw.randint(1, 5))] + ["linear"]
    residual = draw.random() < 0.6
    end = draw.choice(["last", "first", "some", "head", "shown", "select", "two"])

    def run(x: Any) -> Any:
        for k, kind in enumerate(chosen):
            y = layer(x, kind, k % 4)
            x = x + y if residual else y
        if end == "last":
            return x[:, -1:, :] * 2
        if end == "first":
            return x[:, 0].tanh()
        if end in ("some", "head"):  # a product with a parameter is folded, one with another tensor is not
            return F.linear(x[:, 5:8] if end == "some" else x[:, -1:], weights[seed % 4])
        if end == "shown":
            part = x[:, -2:].transpose(1, 2)
            return part.unsqueeze(1) + part[:, :7].sum(), part.reshape(-1) * 2
        if end == "select":
            return x.select(1, -3) + 1
        return x[:, -1] * 2, x[:, -1:] + bias

    return run


@pytest.mark.parametrize("mode", ["max-autotune", "reduce-overhead"])
@pytest.mark.parametrize("seed", range(30))
def test_random_stacks(seed: int, mode: str) -> None:
    batch, length = random.Random(seed).choice([(1, 64), (2, 40), (3, 33)])
    x = nt.randn(batch, length, WIDE, generator=nt.Generator().manual_seed(seed))
    program, _ = compiled_and_recorded(block(seed), x, mode=mode)
    if mode == "max-autotune" and LEAVES_OUT:
        assert min(rows_multiplied(program.plan())) < batch * length


def test_the_last_token_of_a_transformer() -> None:
    nt.manual_seed(0)
    layer = nt.nn.TransformerEncoderLayer(WIDE, 4, 2 * WIDE, batch_first=True, norm_first=True).eval()
    program, _ = compiled_and_recorded(lambda x: layer(x)[:, -1:] * 1, nt.randn(1, 64, WIDE))
    assert rows_multiplied(program.plan())[-2:] == ([8, 8] if LEAVES_OUT else [64, 64])


def test_what_is_read_elsewhere_is_computed() -> None:
    weight = nt.randn(WIDE, WIDE)

    def last_and_sum(x: Any) -> Any:
        y = F.linear(x, weight)
        return y[:, -1:] * 2, y.sum()

    def two_places(x: Any) -> Any:
        y = F.linear(x, weight)
        return y[:, :1] * 2, y[:, -1:] * 2

    def other_dimension(x: Any) -> Any:
        return F.linear(x, weight)[..., :8] * 2

    def shown(x: Any) -> Any:
        return F.linear(x, weight)[:, -1:]

    def softmax_along(x: Any) -> Any:
        return F.softmax(F.linear(x, weight), 1)[:, -1:] * 2

    def scaled(x: Any) -> Any:  # which a library multiplies
        return nt.addmm(weight[0], x.view(80, WIDE), weight, alpha=2).view(2, 40, WIDE)[:, -1:] * 2

    for function in (last_and_sum, two_places, other_dimension, shown, softmax_along, scaled):
        program, _ = compiled_and_recorded(function, nt.randn(2, 40, WIDE))
        assert rows_multiplied(program.plan()) == [80], function.__name__


def test_training_keeps_all_rows() -> None:
    """What the backward needs is read by it."""
    weight, x = nt.randn(WIDE, WIDE, requires_grad=True), nt.randn(1, 64, WIDE)

    def loss(x: Any, weight: Any) -> Any:
        return F.gelu(F.linear(x, weight))[:, -1:].square().sum()

    loss(x, weight).backward()
    want, weight.grad = weight.grad, None
    nt.compile(loss)(x, weight).backward()
    assert weight.grad.equal(want)


def test_lengths_that_vary() -> None:
    weight = nt.randn(WIDE, WIDE)
    f = nt.compile(lambda x: F.gelu(F.linear(x, weight))[:, -1:] * 2, dynamic=True)
    with nt.no_grad():
        for length in (64, 33, 17, 16, 9, 8, 3, 1, 100):
            x = nt.randn(1, length, WIDE)
            assert f(x).allclose(F.gelu(F.linear(x, weight))[:, -1:] * 2, rtol=1e-5, atol=1e-5)
