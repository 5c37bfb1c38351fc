"""Sizes that change: captured once with sizes as values, fitted to each shape, refused where a check does not hold."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import narthex as torch
import pytest

F = torch.nn.functional


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


def tensors_of_sizes(x):
    t, total = x.shape[1], x.sum()
    flat = torch.tensor([t, 3]), torch.as_tensor([t / 2, 2.5]), x.new_tensor([t, t + 1]), torch.tensor(x.shape)
    nested = torch.tensor([[t, 3], [x.shape[2], t * 2]], dtype=torch.float32, device="cpu")
    return flat, nested, torch.tensor([total, x.mean()]), torch.tensor([[t], [total.long()]]) * x[0, 0, 0].detach()


OPEN = [reads_sizes, makes_positions, slices, computes_with_sizes, calls_stay_open, tensors_of_sizes]


@pytest.mark.parametrize("function", OPEN)
@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_a_growing_length_compiles_once_more(function, mode):
    assert entries_over(function, [3, 4, 5, 9, 2, 5, 16], mode=mode) == [1, 2, 2, 2, 2, 2, 2]


def test_tensors_of_sizes_are_one_graph():
    assert entries_over(tensors_of_sizes, [3, 4, 5, 9], dynamic=True, fullgraph=True) == [1, 1, 1, 1]


@pytest.mark.parametrize("data", ["[x, x]", "[[x.shape[0], 1], [2]]", "[x.sum()], [x.shape[0], 1]"])
def test_a_tensor_of_sizes_that_eager_refuses(data):
    space = {"torch": torch}
    function = eval(f"lambda x: torch.tensor([{data}])", space)
    for call in (function, torch.compile(function, dynamic=True)):
        with pytest.raises((TypeError, ValueError)):
            call(torch.ones(2, 3))


def test_arithmetic_of_floats_is_computed_for_each_size():
    assert entries_over(lambda x: (x * x.size(1) ** -0.5, x.size(1) / 2), [3, 4, 5, 4]) == [1, 2, 2, 2]


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
        return x * math.sqrt(x.size(1))

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


# ---- numbers of Python: what was another number at an earlier call is left open -------------------------------------
FACTOR = 0.0
NUMBERS = {
    "arguments": lambda x, n: (x * n, n * x, x + n, n + x, x - n, n - x, x / n, x > n, x <= n),
    "arithmetic": lambda x, n: (x * (1 - n) + n * 2, x / (n + 1), -n, n * 3, n / 2, 0.9**n),
    "a branch": lambda x, n: x * n if n > 0 else x - n,
    "in place": lambda x, n: x.clone().mul_(n).add_(n).sub_(n).div_(n),
    "no dimensions": lambda x, n: x.sum() * n + n,
    "half": lambda x, n: x.half() * n,
    "integers": lambda x, n: x.long() * n,
    "a host argument": lambda x, n: (x.clamp(min=n), torch.full((2,), n)),
    "both": lambda x, n: (x * n).clamp(max=n),
    "text": lambda x, n: (x * n, isinstance(n, (int, float)), type(n).__name__),
    "kept": lambda x, n: {"n": n, "x": [x, n]},
}


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("step", [1, 0.25], ids=["int", "float"])
@pytest.mark.parametrize("options", [{}, {"backend": "eager"}, {"mode": "reduce-overhead"}])
def test_a_number_that_varies_compiles_once_more(name, step, options):
    function, x = NUMBERS[name], torch.randn(3, 4)
    compiled = torch.compile(function, **options)
    for k in range(1, 12):
        assert same_bits(compiled(x, k * step), function(x, k * step)), k
    assert compiled.entries == 2


def same_bits(x, y):
    if isinstance(x, torch.Tensor):
        return x.dtype == y.dtype and x.tolist() == y.tolist()
    if isinstance(x, (tuple, list)):
        return type(x) is type(y) and len(x) == len(y) and all(map(same_bits, x, y))
    if isinstance(x, dict):
        return list(x) == list(y) and all(same_bits(x[k], y[k]) for k in x)
    return type(x) is type(y) and x == y


class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls, self.scale, self.linear = 0, 1.0, torch.nn.Linear(4, 4)
        self.settings, self.list = {"rate": 0.5, "seen": 0}, [0.5]

    def forward(self, x):
        global FACTOR
        self.calls += 1
        self.settings["seen"] += 2
        FACTOR = FACTOR + 1.5
        return self.linear(x) * self.scale * self.settings["rate"] + FACTOR + self.calls * self.list[0]


def test_counters_and_settings_of_objects_compile_a_few_times():
    global FACTOR
    x, plain, model = torch.randn(3, 4), Counting(), Counting()
    model.load_state_dict(plain.state_dict())
    compiled, counts = torch.compile(model), []
    for k in range(12):
        results = []
        for one in (plain, compiled):
            FACTOR = k * 0.5
            one.scale, one.settings["rate"], one.list[0] = 1.0 + k, 0.1 * k, 0.25 * k
            results.append(one(x).tolist())
        assert results[0] == results[1]
        assert (plain.calls, plain.settings) == (model.calls, model.settings)
        counts.append(compiled.forward.entries)
    assert counts[-1] == counts[2] <= 3


def test_gradients_with_a_number_that_varies():
    function = torch.compile(lambda w, n: ((w * n) ** 2).sum() / n)
    for k in range(1, 6):
        a, b = torch.ones(3).requires_grad_(), torch.ones(3).requires_grad_()
        function(a, k * 0.5).backward()
        (((b * (k * 0.5)) ** 2).sum() / (k * 0.5)).backward()
        assert a.grad.tolist() == b.grad.tolist()
    assert function.entries == 2


def test_large_ints_and_other_types_are_told_apart():
    function, x = torch.compile(lambda x, n: (x * n, n + 1)), torch.ones(2)
    for n in [1, 2, 3, 2**53 + 1, 1.5, True, 4, -(2**60), float("inf"), 5]:
        assert same_bits(function(x, n), (x * n, n + 1)), n


def test_what_compiles_for_every_number_stops():
    function, x = torch.compile(lambda x, n: x.clamp(min=n)), torch.randn(3)
    with pytest.warns(UserWarning, match="runs uncompiled"):
        for k in range(60):
            assert function(x, k / 8).tolist() == x.clamp(min=k / 8).tolist()


def test_a_graph_with_quotients_of_sizes_runs_in_a_backend_of_ones_own():
    def function(x):
        half = x.shape[0] / 2
        return x if half == 17.0 else x * half

    graphs = []
    compiled = torch.compile(function, fullgraph=True, backend=lambda gm, inputs: graphs.append(gm) or gm.forward)
    for n in (2, 3, 4, 6):
        assert compiled(torch.ones(n, 2)).tolist() == function(torch.ones(n, 2)).tolist()
    assert compiled.entries == 2 and len(graphs) == 2


@pytest.mark.parametrize("fullgraph", [True, False])
def test_what_is_refused_for_one_size_is_asked_again_for_the_next(fullgraph):
    compiled = torch.compile(lambda x: x.std(0).view(4, -1) + 1, fullgraph=fullgraph)
    for n in (5, 7):
        with pytest.raises(RuntimeError, match=rf"shape '\[4, -1\]' is invalid for input of size {n}"):
            compiled(torch.ones(n, n))
    assert same(compiled(torch.eye(8)), torch.eye(8).std(0).view(4, -1) + 1)
    assert not fullgraph or compiled.entries == 1


@pytest.mark.parametrize("mode", ["max-autotune", "reduce-overhead"])
def test_sizes_of_what_no_input_is_left_in(mode):
    def function(x):
        part = torch.ones(3, 4, device=x.device).tensor_split(2)[0]
        return part.view(part.shape[0], -1) + 1

    compiled = torch.compile(function, dynamic=True, fullgraph=True, mode=mode)
    for n in (5, 6):
        assert same(compiled(torch.ones(n, 3)), function(torch.ones(n, 3)))
    assert compiled.entries == 1


def test_a_result_that_would_be_resized_is_traced_anew():
    def into(x):
        out = torch.zeros(3, 4)
        torch.mul(x, 2, out=out)
        return out

    compiled = torch.compile(into, dynamic=True)
    for n in (3, 3, 5, 3):
        x = torch.randn(n, 4)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert torch.equal(compiled(x), x * 2)


SIZED = {  # under autocast; the last ones are made of operators that it casts
    "std": lambda x: (x @ x.mT).std(),
    "var": lambda x: x.var(0),
    "cov": lambda x: torch.cov(x.flatten(1)),
    "repeat": lambda x: torch.arange(3).repeat(x.size(0), 2),
    "tile": lambda x: (x + 1).tile(x.size(0), 1, 1),
    "interpolate": lambda x: F.interpolate(x[None], size=(x.size(0) + 1, 4), mode="bilinear"),
    "unflatten": lambda x: x.flatten().unflatten(0, (x.size(0), 3, 4)),
    "group norm": lambda x: F.group_norm(x, 3),
    "linear": lambda x: F.linear(x, torch.ones(5, 4)).repeat(x.size(0), 1, 1),
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x),
    "hstack": lambda x: torch.hstack([x @ x.mT @ x, x]),
    "addbmm": lambda x: torch.addbmm(torch.ones(3, 3), x, x.mT, alpha=2),
    "cross entropy": lambda x: F.cross_entropy(x.flatten(1), torch.zeros(x.size(0), dtype=torch.long)),
}


@pytest.mark.parametrize("name", SIZED)
@pytest.mark.parametrize("options", [{"dynamic": True}, {"dynamic": True, "fullgraph": True}, {}])
def test_sizes_that_vary_under_autocast(name, options):
    function = SIZED[name]
    compiled = torch.compile(function, **options)
    for n in (2, 3, 5, 4):
        x = torch.randn(n, 3, 4)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            expected, got = function(x), compiled(x)
        assert got.dtype == expected.dtype
        torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("name", ["hstack", "vstack", "dstack", "column_stack", "row_stack", "cat", "stack", "concat"])
def test_joins_leave_sizes_open_under_autocast(name):
    compiled = torch.compile(getattr(torch, name))
    for n in (2, 3, 5, 4, 9):
        parts = [torch.randn(n, n), torch.randn(n, n).bfloat16()]
        with torch.autocast("cpu", dtype=torch.bfloat16):
            got, expected = compiled(parts), getattr(torch, name)(parts)
        assert got.dtype == expected.dtype == torch.float32 and torch.equal(got, expected)
    assert compiled.entries == 2
