"""torch.cond in compiled functions: one graph with both branches, PyTorch's results and gradients, and what is an `if`
instead."""

import importlib.util
from typing import Any

import narthex as nt
import pytest
from narthex import _C
from narthex._functorch.aot_autograd import aot_module_simplified

if importlib.util.find_spec("torch"):
    import torch
else:  # where there is no PyTorch (CPython 3.12 to 3.14), eager is what compiled functions are held to
    torch = nt


def weights(m: Any, requires_grad: bool = False):
    return (m.arange(9.0).view(3, 3) / 9).requires_grad_(requires_grad)


PROGRAMS = {
    "operands": lambda m, x, w: m.cond(x.sum() > 0, lambda a: a.sin(), lambda a: a.cos() * 2, (x,)),
    "closures": lambda m, x, w: m.cond(x.sum() > 0, lambda: x @ w, lambda: (x * 2) @ w.t() + x),
    "trees": lambda m, x, w: m.cond(
        x.sum() > 0, lambda a: {"a": a @ w, "b": a.sum()}, lambda a: {"a": a * 3, "b": a.mean()}, (x,)
    )["a"],
    "a view": lambda m, x, w: m.cond(x.sum() > 0, lambda a: a.clone(), lambda a: (a * 2)[:], (x,)),
    "no gradient for the other": lambda m, x, w: m.cond(x.min() > 0, lambda a: a.log(), lambda a: a * 0.5, (x,)),
    "one after the other": lambda m, x, w: m.cond(
        (y := m.cond(x.sum() > 0, lambda a: a.sin(), lambda a: a.cos(), (x,))).sum() > 1,
        lambda a: a.exp() @ w,
        lambda a: a * 2,
        (y,),
    ),
    "written inside": lambda m, x, w: m.cond(x.sum() > 0, lambda a: a.clone().mul_(3), lambda a: (a * 2).add_(1), (x,)),
    "composed": lambda m, x, w: m.cond(
        x.sum() > 0,
        lambda a: m.nn.functional.layer_norm(a, (3,)).softmax(-1),
        lambda a: m.nn.functional.gelu(a) @ w,
        (x,),
    ),
    "one in another": lambda m, x, w: m.cond(
        x.sum() > 0,
        lambda a: m.cond((a @ w).sum() > 9, lambda: a.sin() @ w, lambda: m.cond(a.max() > 9, m.sin, m.cos, (a,)) * x),
        lambda a: m.cond(a.min() > -0.5, lambda b: b * 2, lambda b: (b * a) @ w.t(), (a + x,)),
        (x,),
    ),
    "an index": lambda m, x, w: x[m.cond(x.sum() > 0, lambda a: a.argmax(0), lambda a: a.argmin(0), (x,))],
}


def numbers(m: Any, call: Any, sign: int, requires_grad: bool) -> list:
    """The result, whether it has a history, and the gradients of what it is made of."""
    x = ((m.arange(12.0).view(4, 3) % 5 + 0.3) / 5 * sign).requires_grad_(requires_grad)
    w = weights(m, requires_grad)
    result = call(x, w)
    if result.requires_grad:
        result.sin().sum().backward()
    zero = [0.0]
    return [
        result.tolist(),
        result.requires_grad,
        *(zero if t.grad is None else t.grad.flatten().tolist() for t in (x, w)),
    ]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "narthex", "reduce-overhead"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_one_graph_with_both_branches(name: str, backend: str) -> None:
    options = {"mode": backend} if backend == "reduce-overhead" else {"backend": backend}
    for requires_grad in (False, True):
        compiled = nt.compile(lambda x, w: PROGRAMS[name](nt, x, w), fullgraph=True, **options)
        for sign in (1, -1, 1):
            expected = numbers(torch, lambda x, w: PROGRAMS[name](torch, x, w), sign, requires_grad)
            found = numbers(nt, compiled, sign, requires_grad)
            assert found[1] == expected[1]
            for mine, real in zip(found, expected, strict=True):
                if len(flat(mine)) == len(flat(real)):  # no gradient at all is one of zeros
                    torch.testing.assert_close(flat(mine), flat(real), rtol=1e-4, atol=1e-5)
                else:
                    assert not any(flat(mine) + flat(real))
        assert len(compiled.graphs) == compiled.entries == 1
        calls = {"one after the other": 2, "one in another": 4}
        assert compiled.graphs[0].text().count("narthex::cond(") == calls.get(name, 1)


def flat(value: Any) -> list:
    return [leaf for part in value for leaf in flat(part)] if isinstance(value, list) else [float(value)]


def test_derivatives_of_derivatives() -> None:
    def slopes(x):
        y = PROGRAMS["operands"](nt, x, None).sum()
        (first,) = nt.autograd.grad(y, x, create_graph=True)
        return nt.autograd.grad(first.sum(), x)[0]

    compiled = nt.compile(slopes, fullgraph=True)
    for sign in (1, -1):
        x = (nt.ones(3) * sign).requires_grad_()
        assert nt.allclose(compiled(x), slopes(x))
    assert compiled.entries == 1


def drawing(m: Any, cond: Any, x: Any) -> Any:
    """Numbers of a branch, of one in a branch, and around them, the same in forward and backward."""
    def dropped(a):
        inner = cond(a.max() > 2, lambda b: b * m.rand_like(b), lambda b: b.cos(), (a,))
        return m.nn.functional.dropout(a, 0.4) * 3 + inner

    first = x * m.rand_like(x)
    y = cond(first.sum() > 0, dropped, lambda a: a * m.nn.functional.dropout(a, 0.3), (first,))
    return m.nn.functional.dropout(y, 0.2)


def as_python(pred: Any, true_fn: Any, false_fn: Any, operands: Any = ()) -> Any:
    return true_fn(*operands) if pred else false_fn(*operands)


@pytest.mark.parametrize("device", ["cpu", "npu:0"])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "narthex", "reduce-overhead"])
def test_draws_are_the_same_in_the_backward(backend: str, device: str) -> None:
    """PyTorch's own backward of a cond draws others; what it draws in a Python `if` is what is compared with."""
    import narthex.compat.torch_npu  # noqa: F401  (adds npu:0)

    options = {"mode": backend} if backend == "reduce-overhead" else {"backend": backend}
    compiled = nt.compile(lambda x: drawing(nt, nt.cond, x), fullgraph=True, **options)
    for scale in (1, -1, 9):
        rows = []
        for call in (lambda x: drawing(nt, as_python, x), compiled, compiled):
            nt.manual_seed(scale)
            x = (nt.ones(4, 8) * scale).to(device).requires_grad_()
            result = call(x)
            result.sin().sum().backward()
            rows.append([*(t.detach().cpu() for t in (result, x.grad)), nt.rand(2)])
        for row in rows[1:]:
            assert all(nt.allclose(mine, real) for mine, real in zip(row, rows[0], strict=True))
    assert len(compiled.graphs) == compiled.entries == 1


@pytest.mark.skipif(torch is nt, reason="PyTorch is not here")
def test_draws_are_pytorchs() -> None:
    compiled, rows = nt.compile(lambda x: drawing(nt, nt.cond, x), fullgraph=True), []
    for m, call in ((nt, compiled), (torch, lambda x: drawing(torch, as_python, x))):
        m.manual_seed(5)
        x = m.ones(4, 8, requires_grad=True)
        result = call(x)
        result.sin().sum().backward()
        rows.append(flat([result.tolist(), x.grad.tolist()]))
    torch.testing.assert_close(*rows, rtol=1e-4, atol=1e-5)


def test_what_a_branch_raised_and_the_program_caught() -> None:
    def refused(a):
        raise ValueError("not this one")

    def function(x):
        try:
            return nt.cond(x.sum() > 0, refused, lambda a: a.sin(), (x,))
        except ValueError:
            return x * 2

    compiled = nt.compile(function, fullgraph=True)
    for sign in (1, -1, 1):
        x = nt.ones(3) * sign
        assert nt.equal(compiled(x), function(x))


def test_functions_of_ones_own_in_branches() -> None:
    class Doubled(nt.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return nt.cond(grad.sum() > 0, lambda: grad * 5, lambda: grad * ctx.saved_tensors[0])

    function = lambda x: nt.cond(x.sum() > 0, lambda a: Doubled.apply(a.exp()), lambda a: a.cos(), (x,))  # noqa: E731
    compiled = nt.compile(function, fullgraph=True)
    for sign, weight in ((1, 1), (-1, 1), (1, -1)):
        x = (nt.ones(3) * sign).requires_grad_()
        rows = []
        for call in (function, compiled):
            value = call(x)
            rows.append((value.detach(), *nt.autograd.grad((value * weight).sum(), x)))
        assert all(map(nt.allclose, *rows))
    assert len(compiled.graphs) == 1


def test_an_argument_as_it_came_is_copied() -> None:
    compiled = nt.compile(lambda x: nt.cond(x.sum() > 0, lambda a: a, lambda a: a[:], (x,)), fullgraph=True)
    for x in (nt.ones(3), -nt.ones(3)):
        result = compiled(x)
        assert nt.equal(result, x) and result.data_ptr() != x.data_ptr()
    assert compiled.entries == 1


@pytest.mark.parametrize("device", ["cpu", "npu:0"])
@pytest.mark.parametrize("mode", ["max-autotune", "reduce-overhead"])
def test_the_plan_says_how_it_runs(mode: str, device: str) -> None:
    import narthex.compat.torch_npu  # noqa: F401  (adds npu:0)

    plans = []

    def backend(gm, inputs):
        compiled = gm.graph._c.aot(False).compile(mode, nt.device(device))
        plans.append(compiled.plan())
        return compiled

    compiled = nt.compile(lambda x: PROGRAMS["written inside"](nt, x, None), backend=backend)
    for sign in (1, -1, 1):
        x = (nt.ones(3) * sign).to(device)
        assert nt.equal(compiled(x), x * 3 if sign > 0 else x * 2 + 1)
    assert len(plans) == 1 and "runs call by call: what cond runs" in plans[0]


def test_strides_of_branches_may_differ() -> None:
    function = lambda x: nt.cond(x.sum() > 0, lambda a: a * 3, lambda a: (a.t() * 2).contiguous().t(), (x,))  # noqa: E731
    compiled = nt.compile(function, fullgraph=True)
    for sign in (1, -1):
        x = nt.randn(4, 3).abs() * sign
        assert nt.equal(compiled(x), function(x)) and compiled(x).stride() == (3, 1)
    assert compiled.entries == 1


def test_forward_and_backward_hold_both() -> None:
    seen = []

    def backend(gm, inputs):
        keep = lambda graph, _: seen.append(graph.code) or graph  # noqa: E731
        return aot_module_simplified(gm, inputs, fw_compiler=keep, bw_compiler=keep)

    compiled = nt.compile(lambda x: PROGRAMS["operands"](nt, x, None), backend=backend)
    for sign in (1, -1):
        x = (nt.ones(3) * sign).requires_grad_()
        compiled(x).sum().backward()
        assert nt.allclose(x.grad, x.detach().cos() if sign > 0 else -2 * x.detach().sin())
    forward, backward = seen
    assert forward.count("torch.ops.narthex.cond.default(") == 1
    assert backward.count("torch.ops.narthex.gradients.default(") == 1


def test_autocast() -> None:
    def product(x):
        with nt.autocast("cpu", dtype=nt.bfloat16):
            return nt.cond(x.sum() > 0, lambda a: a @ a, lambda a: (a * 2) @ a, (x,))

    compiled = nt.compile(product, fullgraph=True)
    for x in (nt.eye(3), -nt.eye(3)):
        assert compiled(x).dtype == nt.bfloat16 and nt.equal(compiled(x), product(x))
    assert compiled.entries == 1


# ---- what is an `if` instead --------------------------------------------------------------------------------------
def one_that_prints(x):
    return nt.cond(x.sum() > 0, lambda a: print("yes") or a.sin(), lambda a: a.cos(), (x,))


def other_sizes(x):
    return nt.cond(x.sum() > 0, lambda a: a[:2], lambda a: a, (x,))


def with_a_generator(x):
    own = nt.Generator().manual_seed(1)
    return nt.cond(x.sum() > 0, lambda a: a + nt.rand(3, generator=own), lambda a: a.cos(), (x,))


@pytest.mark.parametrize("function", [one_that_prints, with_a_generator, other_sizes])
def test_followed_as_an_if(function: Any, capsys: Any) -> None:
    compiled = nt.compile(function)
    for sign in (1, -1, 3, 1):
        results = []
        for call in (function, compiled):
            nt.manual_seed(2)
            results.append(call(nt.ones(3) * sign))
        assert nt.equal(*results)
    printed = capsys.readouterr().out
    assert printed == ("yes\n" * 6 if function is one_that_prints else "")


def test_effects_of_the_branch_that_is_taken_alone() -> None:
    seen = []
    function = lambda x: nt.cond(x.sum() > 0, lambda a: seen.append(1) or a * 2, lambda a: a, (x,))  # noqa: E731
    compiled = nt.compile(function, fullgraph=True)
    for sign, expected in ((-1, 0), (1, 1), (-1, 1), (1, 2)):
        compiled(nt.ones(3) * sign)
        assert len(seen) == expected


def test_errors() -> None:
    def wrong(x):
        return nt.cond(x.sum() > 0, lambda a: a @ nt.ones(7), lambda a: a, (x,))

    compiled = nt.compile(wrong)
    assert nt.equal(compiled(-nt.ones(3)), -nt.ones(3))
    with pytest.raises(RuntimeError, match="inconsistent tensor size"):
        compiled(nt.ones(3))
    with pytest.raises(_C.Unsupported):
        nt.compile(one_that_prints, fullgraph=True)(nt.ones(3))
