"""Sizes that change: captured once with sizes as values, fitted to each shape, refused where a check does not hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import narthex as torch
import pytest


def same(x: Any, y: Any) -> bool:
    if isinstance(x, torch.Tensor):
        return x.shape == y.shape and x.dtype == y.dtype and ((x - y).abs() > 1e-5).sum().item() == 0
    if isinstance(x, (tuple, list)):
        return type(x) is type(y) and len(x) == len(y) and all(map(same, x, y))
    return type(x) is type(y) and x == y


def entries_over(function: Callable, lengths: list[int], **options: Any) -> list[int]:
    """Compares with eager at each length; how many pieces are compiled after each."""
    compiled, counts = torch.compile(function, **options), []
    for n in lengths:
        x = torch.randn(2, n, 4)
        expected, got = function(x), compiled(x)
        assert same(expected, got), (n, expected, got)
        counts.append(compiled.entries)
    return counts


def reads_sizes(x):
    b, t, c = x.size()
    return x.view(b, t, 2, c // 2).transpose(1, 2).sum(-1) + t, x.shape, x.size(1) * 2 + 1, x.shape[-1]


def makes_positions(x):
    positions = torch.arange(0, x.size(1), dtype=torch.long, device=x.device)
    return x + positions.view(1, -1, 1)


def slices(x):
    t = x.size(1)
    mask = torch.tril(torch.ones(16, 16))
    return x.sum(-1) @ mask[:t, :t], x[:, t - 2 :], x[:, : t // 2], x[:, -2:]


def computes_with_sizes(x):
    t = x.shape[1]
    return x * t, t - x, (t * 3 - 1) // 2, -t % 5, x.reshape(-1, x.shape[2]).shape[0]


def calls_stay_open(x):
    return x.flatten().numel(), x.view(x.size(0), -1), torch.zeros(x.size(1), 2), torch.zeros(x.shape[:2])


@pytest.mark.parametrize("function", [reads_sizes, makes_positions, slices, computes_with_sizes, calls_stay_open])
@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_a_growing_length_compiles_once_more(function, mode):
    assert entries_over(function, [3, 4, 5, 9, 2, 5, 16], mode=mode) == [1, 2, 2, 2, 2, 2, 2]


def test_one_and_zero_are_sizes_like_others():
    assert entries_over(lambda x: x.sum(1) + x.size(1), [3, 4, 1, 0]) == [1, 2, 2, 2]


def test_a_branch_on_a_size_is_checked():
    def function(x):
        if x.size(1) > 6:
            return x * 2
        return x - 1

    assert entries_over(function, [3, 4, 5, 7, 8, 4, 9, 2]) == [1, 2, 2, 3, 3, 3, 3, 3]


def test_a_size_that_python_code_needs_is_checked():
    def function(x):
        return x * x.size(1) ** -0.5

    assert entries_over(function, [3, 4, 5, 4]) == [1, 2, 3, 3]


def test_the_last_dimension_stays_open_for_a_head_size():
    def function(x):
        return x * x.transpose(1, 2).size(1) ** -0.5  # 4 at every call

    assert entries_over(function, [3, 4, 5, 6]) == [1, 2, 2, 2]


def test_a_loop_over_a_size_is_unrolled_and_checked():
    def function(x):
        total = x[:, 0]
        for i in range(1, x.size(1)):
            total = total + x[:, i] * i
        return total

    assert entries_over(function, [2, 3, 4, 3]) == [1, 2, 3, 3]


def test_sizes_live_over_a_break():
    def function(x):
        t = x.size(1) + 1
        y = x * t
        print("", end="")
        return y.sum() / t, t

    counts = entries_over(function, [3, 4, 5, 6])
    assert counts[1:] == [counts[1]] * 3


def test_slices_live_over_a_break():
    def function(x):
        rows = slice(None, x.size(1) - 1)
        print("", end="")
        return x[:, rows]

    entries_over(function, [3, 4, 5, 2])  # a slice that was made before is a constant of the second graph


def test_layouts_change_with_sizes():
    compiled = torch.compile(lambda x: (x + 1).sum(0))
    rows, steps = torch.randn(2, 3), torch.randn(4, 10)[::2, ::3]
    for x in (rows, torch.randn(2, 4), torch.randn(5, 2).t(), torch.randn(6, 2).t(), steps):
        assert same(compiled(x), (x + 1).sum(0))
    assert compiled.entries == 2


def test_gradients():
    w = torch.randn(4, 4, requires_grad=True)

    def function(x):
        b, t, c = x.shape
        return ((x @ w).view(b * t, c).tanh() * t).mean()

    compiled = torch.compile(function)
    for b, t in ((2, 3), (2, 4), (5, 7), (1, 1), (2, 3)):
        x = torch.randn(b, t, 4)
        grads = []
        for run in (function, compiled):
            w.grad = None
            run(x).backward()
            grads.append(w.grad.clone())
        assert same(*grads)
    assert compiled.entries == 3  # the first shape, one with its length open, one with both


def test_dynamic_true_compiles_once():
    assert entries_over(reads_sizes, [3, 4, 5], dynamic=True) == [1, 1, 1]


def test_dynamic_false_compiles_each():
    assert entries_over(reads_sizes, [3, 4, 5], dynamic=False) == [1, 2, 3]


def test_a_backend_of_ones_own_gets_one_graph():
    seen = []

    def backend(gm, example_inputs):
        seen.append(str(gm.graph))
        return gm.forward

    assert entries_over(reads_sizes, [3, 4, 5, 6], backend=backend) == [1, 2, 2, 2]
    assert len(seen) == 2 and "sym_size" in seen[1] and "sym_size" not in seen[0]


def test_more_shapes_than_are_kept():
    assert entries_over(makes_positions, list(range(2, 60)) + [3])[-1] == 2


def test_in_place_on_an_input():
    def function(x):
        x.add_(x.size(1))
        return x * 2

    compiled = torch.compile(function)
    for n in (3, 4, 5):
        x = torch.randn(2, n)
        y = x.clone()
        assert same(function(x), compiled(y)) and same(x, y)
    assert compiled.entries == 2


def test_errors_are_those_of_eager():
    def function(x):
        return x.view(2, x.size(1) // 2, 2, 4)

    compiled = torch.compile(function)
    for n in (4, 6, 8):
        compiled(torch.randn(2, n, 4))
    with pytest.raises(RuntimeError, match="invalid for input of size"):
        compiled(torch.randn(2, 7, 4))
    assert compiled(torch.randn(2, 2, 4)).shape == (2, 1, 2, 4)


def test_the_reason_names_the_size():
    compiled = torch.compile(reads_sizes)
    compiled(torch.randn(2, 3, 4))
    compiled(torch.randn(2, 5, 4))
    assert compiled.recompiles == ["L['x'] size mismatch at dim 1: expected 3, got 5"]


def test_an_integer_argument_that_changes():
    compiled = torch.compile(lambda x, k: (x[:, k:] * k, k + 1, x.sum() if k > 3 else x))
    eager = compiled.fn
    x = torch.randn(3, 9)
    for k, expected in ((1, 1), (2, 2), (3, 2), (5, 3), (6, 3), (1, 3)):
        assert same(compiled(x, k), eager(x, k))
        assert compiled.entries == expected
    assert same(compiled(x, 10**30 % 7), eager(x, 10**30 % 7))
    assert same(compiled(x, True), eager(x, True))


def test_isinstance_and_text():
    def function(x):
        t = x.size(1)
        return x + len(str(t)) + (1 if isinstance(t, int) else 100)

    assert entries_over(function, [3, 4])[-1] == 2


# ---- what a trace must not take for granted


def test_no_grad_stays_in_the_graph():
    def function(x):
        with torch.no_grad():
            y = x * x.shape[0]
        return x * y, y

    compiled = torch.compile(function)
    for n in (2, 3, 4):
        x = torch.ones(n, requires_grad=True)
        product, factor = compiled(x)
        product.sum().backward()
        assert not factor.requires_grad and x.grad.tolist() == [float(n)] * n


@pytest.mark.parametrize("rows", [(1, 3, 1), (3, 1, 3)])
def test_the_number_of_dimensions_is_checked(rows):
    def function(x):
        y = x.squeeze(0)
        return (y + 1 if y.dim() == 1 else y - 1), y.shape, y.size(-1)

    compiled = torch.compile(function, dynamic=True)
    for n in rows:
        x = torch.ones(n, 2)
        assert same(compiled(x), function(x))


def caught_view(x):
    try:
        return x.view(4, -1)
    except RuntimeError:
        return x * 0


def caught_index(x):
    try:
        return x[4]
    except IndexError:
        return x[0] * 10


@pytest.mark.parametrize("function", [caught_view, caught_index])
def test_a_caught_error_may_not_come_again(function):
    compiled = torch.compile(function, dynamic=True)
    for n in (3, 8, 3, 5):
        x = torch.ones(n, 2)
        assert same(compiled(x), function(x))


def test_contiguous_gives_its_argument_or_a_copy():
    def function(x):
        y = x.contiguous()
        return y, y is x, y.stride()

    compiled = torch.compile(function, dynamic=True)
    for n in (1, 3, 1, 4):
        x = torch.ones(6, n).t()
        y, is_same, stride = compiled(x)
        expected = function(x)
        assert (is_same, stride, y is x) == (expected[1], expected[2], expected[0] is x)


def test_dropout_of_nothing_and_of_something():
    def function(x):
        torch.nn.functional.dropout(x, 1.0)
        return x * 1

    compiled = torch.compile(function, dynamic=True)
    for n in (0, 2, 3):
        assert compiled(torch.ones(n)).tolist() == [1.0] * n


def test_a_size_is_an_int():
    def function(x):
        match x.shape[0]:
            case int():
                y = x - 1
            case _:
                y = x + 100
        return y + (1 if type(x.shape[0]) is int else 100)

    compiled = torch.compile(function, dynamic=True)
    for n in (2, 3):
        assert compiled(torch.ones(n)).tolist() == [1.0] * n


def test_writes_that_eager_refuses():
    def whole(x):
        y = torch.zeros(6)
        y[:] = x
        return y

    def masked(x, mask):
        y = x.clone()
        y[mask] = 0
        return y

    compiled = torch.compile(whole, dynamic=True)
    assert compiled(torch.ones(1, 6)).tolist() == [1.0] * 6
    with pytest.raises(RuntimeError):
        compiled(torch.ones(3, 6))
    compiled = torch.compile(masked, dynamic=True)
    assert compiled(torch.ones(1, 6), torch.ones(1, 6) > 0).sum().item() == 0
    with pytest.raises(IndexError):
        compiled(torch.ones(3, 6), torch.ones(1, 6) > 0)


def test_the_offset_is_the_tensors_own():
    compiled = torch.compile(lambda x: x * x.storage_offset())
    whole = torch.ones(9)
    assert compiled(whole[2:5]).tolist() == [2.0] * 3 and compiled(whole[4:7]).tolist() == [4.0] * 3


def test_a_recompilation_names_the_size_and_the_line():
    def decides(x):
        if x.size(0) > 10:
            return x + 1
        return x * 2

    compiled, line = torch.compile(decides), decides.__code__.co_firstlineno + 1
    for n in (4, 5, 12):
        compiled(torch.ones(n))
    assert compiled.recompiles[1] == f"size 0 of l_x_ is 12, and the trace went by <= 10 at line {line}"
