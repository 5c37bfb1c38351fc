"""First and second gradients where a formula divides by zero or two branches meet; PyTorch is the oracle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import narthex as nt
import pytest
import torch

ZEROS = {"one zero": [0.0, 4.0, 3.0, 2.0], "two": [0.0, 0.0, 3.0, 2.0], "three": [0.0, 0.0, 0.0, 2.0]}
CASES: dict[str, tuple[Callable[[Any, Any], Any], list[list[float]]]] = {
    "std of equal numbers": (lambda t, x: x.std(), [[1.0, 1.0, 1.0]]),
    "std, rows": (lambda t, x: x.view(2, 2).std(1), [[1.0, 1.0, 2.0, 3.0]]),
    "std_mean": (lambda t, x: t.std_mean(x, correction=0)[0], [[2.0, 2.0]]),
    "elu": (lambda t, x: t.ops.aten.elu(x, 1, 1, 1), [[0.0, -0.0, 1.0, -1.0]]),
    "elu, scaled": (lambda t, x: t.ops.aten.elu(x, 3.0, 1.5, 0.7), [[0.0, -0.0, 1.0, -1.0]]),
    "selu": (lambda t, x: t.selu(x), [[0.0, -0.0, 1.0, -1.0]]),
    "norm of number -1": (lambda t, x: t.linalg.vector_norm(x, -1), [[1.0, -2.0, 4.0]]),
    **{f"prod, {name}": (lambda t, x: x.prod(), [row]) for name, row in ZEROS.items()},
    **{f"prod of rows, {name}": (lambda t, x: x.view(2, 4).prod(1), [row + row[::-1]]) for name, row in ZEROS.items()},
    "prod without zeros": (lambda t, x: x.prod(0, keepdim=True), [[1.0, -4.0, 3.0]]),
}
COMPARED = ("eq_", "ne_", "lt_", "le_", "gt_", "ge_")
FIRST_ONLY: dict[str, tuple[Callable[..., Any], list[list[float]]]] = {
    "norm of number -1, a zero": (lambda t, x: t.linalg.vector_norm(x, -1), [[1.0, 0.0, -2.0]]),
    **{f"{name}, written": (lambda t, x, name=name: getattr(x * 2, name)(2), [[1.0, 2.0, 0.0]]) for name in COMPARED},
    "atan2": (lambda t, y, x: t.atan2(y, x), [[0.0, -0.0, 0.0, 0.0, 2.0], [0.0, 0.0, 1.0, 1e-30, -3.0]]),
}


def gradients(t: Any, function: Any, rows: list[list[float]], second: bool) -> list[list[list[float]]]:
    leaves = [t.tensor(row, requires_grad=True) for row in rows]
    result = function(t, *leaves)
    found = t.autograd.grad(result.sum(), leaves, create_graph=second)
    if second:
        weights = t.arange(1.0, 1.0 + leaves[0].numel())
        found += t.autograd.grad((found[0] * weights).sum(), leaves)
    return [grad.tolist() for grad in found]


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_pytorchs(name: str) -> None:
    function, rows = CASES[name]
    second = "std" not in name  # PyTorch's own are NaN there
    ours, theirs = (gradients(t, function, rows, second) for t in (nt, torch))
    for mine, other in zip(ours, theirs, strict=True):
        assert mine == pytest.approx(other, rel=1e-6, nan_ok=True)


@pytest.mark.parametrize("name", FIRST_ONLY)
def test_first_gradients_are_pytorchs(name: str) -> None:
    function, rows = FIRST_ONLY[name]
    ours, theirs = (gradients(t, function, rows, False) for t in (nt, torch))
    assert ours == [pytest.approx(other, rel=1e-6) for other in theirs]


@pytest.mark.parametrize("name", ["remainder", "fmod"])
def test_what_divides_truths_has_a_gradient(name: str) -> None:
    found = []
    for t in (nt, torch):
        y = t.tensor([0.5, 0.3, -0.4], requires_grad=True)
        found.append(t.autograd.grad(getattr(t, name)(t.tensor([True, False, True]), y).sum(), y)[0].tolist())
    assert found[0] == found[1]
