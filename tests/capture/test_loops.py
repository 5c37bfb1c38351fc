"""while_loop in compiled functions: one graph with one call, PyTorch's results and gradients, and what is a loop of
Python instead."""

import importlib.util
from types import SimpleNamespace
from typing import Any

import narthex as nt
import pytest
from narthex import _higher_order_ops as ours

from .test_branches import flat

if importlib.util.find_spec("torch"):
    import torch
    from torch import _higher_order_ops as theirs
else:  # where there is no PyTorch (CPython 3.12 to 3.14), eager is what compiled functions are held to
    torch, theirs = nt, ours


def in_python(cond_fn: Any, body_fn: Any, carried: tuple) -> Any:
    """What PyTorch cannot compile, a loop in a loop, is held to this one."""
    while cond_fn(*carried):
        carried = body_fn(*carried)
    return carried


def newton(m: Any, h: Any, x: Any, w: Any) -> Any:
    """Square roots to a tolerance."""
    return h.while_loop(
        lambda y, n: ((y * y - x).abs().max() > 1e-3) & (n < 50),
        lambda y, n: ((y + x / y) / 2, n + 1),
        (x.clone(), m.tensor(0)),
    )[0]


def trees(m: Any, h: Any, x: Any, w: Any) -> Any:
    state = {"n": m.zeros((), dtype=m.int64), "rows": [x, x.t().contiguous()]}
    step = lambda s: ({"n": s["n"] + 1, "rows": [s["rows"][0] * 0.5 + w[:3], s["rows"][1].sin()]},)  # noqa: E731
    (last,) = h.while_loop(lambda s: s["n"] < 4, step, (state,))
    return last["rows"][0] + last["rows"][1].t()


def inner(m: Any, h: Any, x: Any, w: Any) -> Any:
    """A loop in a loop, and a condition in a loop."""
    def step(n, y):
        _, z = h.while_loop(lambda k, z: k < n, lambda k, z: (k + 1, (z @ w).tanh()), (m.tensor(0), y + 1))
        return n + 1, m.cond(z.sum() > 2, lambda a: a.sin(), lambda a: a * y, (z,))

    return h.while_loop(lambda n, y: n < 3, step, (m.tensor(0), x))[1]


PROGRAMS = {
    "powers": lambda m, h, x, w: h.while_loop(
        lambda n, y: n < 3, lambda n, y: (n + 1, y * w[:3] + y.sin()), (m.tensor(0), x)
    )[1],
    "a tolerance": newton,
    "trees": trees,
    "inner": inner,
    "one tensor": lambda m, h, x, w: h.while_loop(lambda y: y.sum() < 90, lambda y: y * 2 + w[0, 0], (x,)),
    "a size": lambda m, h, x, w: h.while_loop(
        lambda n, y: n < w.size(0), lambda n, y: (n + 1, (y @ w).relu()), (m.tensor(0), x * 2)
    )[1],
    "written inside": lambda m, h, x, w: h.while_loop(
        lambda n, y: n < 3, lambda n, y: (n + 1, y.clone().mul_(2).add_(w[0])), (m.tensor(0), x)
    )[1],
    "in a branch": lambda m, h, x, w: m.cond(
        x.sum() > 0, lambda: h.while_loop(lambda y: y.max() < 9, lambda y: y @ w + y + 1, (x,)), lambda: x * 2
    ),
}


def numbers(m: Any, call: Any, requires_grad: bool) -> list:
    x = ((m.arange(9.0).view(3, 3) % 5 + 1.3) / 5).requires_grad_(requires_grad)
    w = (m.arange(9.0).view(3, 3) / 9).requires_grad_(requires_grad)
    result = call(x, w)
    result = result[0] if isinstance(result, tuple) else result
    if requires_grad:
        result.sin().sum().backward()
    grads = [m.zeros(9) if t.grad is None else t.grad.flatten() for t in (x, w)]
    return [result.detach().tolist(), result.requires_grad, *(g.tolist() for g in grads)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "narthex", "reduce-overhead"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_one_graph_with_the_loop(name: str, backend: str) -> None:
    options = {"mode": backend} if backend == "reduce-overhead" else {"backend": backend}
    for requires_grad in (False, True):
        compiled = nt.compile(lambda x, w: PROGRAMS[name](nt, ours, x, w), fullgraph=True, **options)
        loops = SimpleNamespace(while_loop=in_python) if name == "inner" else theirs
        expected = numbers(torch, lambda x, w: PROGRAMS[name](torch, loops, x, w), requires_grad)  # noqa: B023
        for found in [numbers(nt, compiled, requires_grad) for _ in range(2)]:
            torch.testing.assert_close(flat(found), flat(expected), rtol=1e-4, atol=1e-5)
        assert len(compiled.graphs) == compiled.entries == 1
        text = compiled.graphs[0].text()
        assert text.count("narthex::while_loop(") == (2 if name == "inner" else 1)


def test_the_number_of_steps_is_the_datas() -> None:
    def function(x):
        return ours.while_loop(lambda n, y: y.sum() < 50, lambda n, y: (n + 1, y * 2), (nt.tensor(0), x))

    compiled = nt.compile(function, fullgraph=True)
    for start in (1.0, 30.0, 0.01, 7.0):
        x = nt.full((3,), start, requires_grad=True)
        (n, found), (steps, expected) = compiled(x), function(x)
        assert n == steps and nt.equal(found, expected) and found.data_ptr() != x.data_ptr()
        assert nt.autograd.grad(found.sum(), x)[0].tolist() == [2.0**steps] * 3  # PyTorch's are 2.0 for no step at all
    assert compiled.entries == 1


@pytest.mark.parametrize("device", ["cpu", "npu:0"])
@pytest.mark.parametrize("backend", ["eager", "narthex", "reduce-overhead"])
def test_draws_are_the_same_in_the_backward(backend: str, device: str) -> None:
    import narthex.compat.torch_npu  # noqa: F401  (adds npu:0)

    def function(x):
        step = lambda n, y: (n + 1, nt.nn.functional.dropout(y.sin(), 0.3) + nt.rand_like(y))  # noqa: E731
        return nt.rand_like(x) * ours.while_loop(lambda n, y: n < 4, step, (nt.tensor(0, device=device), x))[1]

    options = {"mode": backend} if backend == "reduce-overhead" else {"backend": backend}
    compiled, rows = nt.compile(function, fullgraph=True, **options), []
    for call in (function, compiled, compiled):
        nt.manual_seed(4)
        x = nt.ones(4, 8).to(device).requires_grad_()
        result = call(x)
        result.sum().backward()
        rows.append([*(t.detach().cpu() for t in (result, x.grad)), nt.rand(2)])
    for row in rows[1:]:
        assert all(nt.allclose(mine, real) for mine, real in zip(row, rows[0], strict=True))
    assert compiled.entries == 1


def test_derivatives_of_derivatives() -> None:
    def slopes(x):
        y = ours.while_loop(lambda n, y: n < 2, lambda n, y: (n + 1, y * y), (nt.tensor(0), x))[1].sum()
        (first,) = nt.autograd.grad(y, x, create_graph=True)
        return nt.autograd.grad(first.sum(), x)[0]

    x = nt.tensor([1.0, 2.0], requires_grad=True)
    compiled = nt.compile(slopes, fullgraph=True)
    assert compiled(x).tolist() == slopes(x).tolist() == [12.0, 48.0]


def test_the_plan_says_how_it_runs() -> None:
    plans = []

    def backend(gm, inputs):
        compiled = gm.graph._c.aot(False).compile("max-autotune", nt.device("cpu"))
        plans.append(compiled.plan())
        return compiled

    nt.compile(lambda x: PROGRAMS["one tensor"](nt, ours, x, x), backend=backend)(nt.ones(3, 3))
    assert len(plans) == 1 and "runs call by call: what while_loop runs" in plans[0]


def test_the_graph_is_text_that_reads_back() -> None:
    compiled = nt.compile(lambda x: PROGRAMS["inner"](nt, ours, x, x), fullgraph=True)
    compiled(nt.ones(3, 3))
    text = compiled.graphs[0].text()
    again = nt._C.Graph.parse(text)
    again.verify()
    assert again.text() == text


# ---- what is a loop of Python instead -----------------------------------------------------------------------------
def test_a_number_of_python_is_carried() -> None:
    function = lambda x: ours.while_loop(lambda n, y: n < 3, lambda n, y: (n + 1, y * 2), (0, x))  # noqa: E731
    compiled = nt.compile(function, fullgraph=True)
    n, y = compiled(nt.ones(2))
    assert n == 3 and y.tolist() == [8.0, 8.0]


def test_what_changes_something(capsys: Any) -> None:
    def function(x):
        return ours.while_loop(lambda y: y.sum() < 9, lambda y: (print("step") or y * 2,), (x,))

    compiled = nt.compile(function)
    assert nt.equal(compiled(nt.ones(3))[0], nt.full((3,), 4.0))
    assert capsys.readouterr().out == "step\n" * 2


def test_memory_goes_with_the_loop(live: Any) -> None:
    compiled = nt.compile(lambda x, w: PROGRAMS["inner"](nt, ours, x, w), fullgraph=True)
    x, w = nt.ones(3, 3, requires_grad=True), nt.ones(3, 3, requires_grad=True)
    for _ in range(2):
        compiled(x, w).sum().backward()
    before = live()
    for _ in range(3):
        compiled(x, w).sum().backward()
    assert live() == before
