"""autograd.Function in captured functions: one graph, eager's results and gradients, and PyTorch's; what ends one."""

import functools
import importlib.util

import narthex as torch
import pytest
from narthex import _C

from .functions import REFUSED, classes, programs

NAMES = list(programs(torch))
BACKENDS = ["eager", "aot_eager", "narthex"]
of = classes(torch)


def run(torch, function, make, seed):
    """Results and gradients as lists, or the error."""
    torch.manual_seed(seed)
    args = make()
    try:
        results = function(*args)
        results = results if isinstance(results, tuple) else (results,)
        recorded = [r for r in results if r.requires_grad]
        total = sum((r * torch.arange(1.0, r.numel() + 1).view(r.shape)).sum() for r in recorded)
        grads = torch.autograd.grad(total, args, allow_unused=True)
    except RuntimeError as error:
        return str(error).split("Hint")[0]
    told = [r.requires_grad for r in results]
    return [told, *(r.detach().tolist() for r in results), *(None if g is None else g.tolist() for g in grads)]


def near(got, expected):
    if isinstance(expected, list) and isinstance(got, list):
        return len(got) == len(expected) and all(map(near, got, expected))
    if isinstance(expected, float):
        return abs(got - expected) <= 1e-5 * (1 + abs(expected))
    return got == expected


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", NAMES)
def test_programs(name, backend, capsys):
    function, make = programs(torch)[name]
    whole = name not in REFUSED
    compiled = torch.compile(function, backend=backend, fullgraph=whole)
    for seed in range(3):
        assert near(run(torch, compiled, make, seed), run(torch, function, make, seed))
    assert not whole or len(compiled.graphs) == 1


@pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="PyTorch is not here")
@pytest.mark.parametrize("name", NAMES)
def test_programs_are_pytorchs(name, capsys):
    import torch as real

    (function, make), (its, its_make) = programs(torch)[name], programs(real)[name]
    got, expected = run(torch, torch.compile(function), make, 5), run(real, its, its_make, 5)
    same_error = isinstance(got, str) and isinstance(expected, str) and got[:60] == expected[:60]
    assert same_error or near(got, expected)


@pytest.mark.parametrize("name", REFUSED)
def test_what_ends_a_graph(name):
    function, make = programs(torch)[name]
    with pytest.raises(_C.Unsupported, match=REFUSED[name]):
        torch.compile(function, fullgraph=True)(*make())


def test_a_leaf_may_not_be_written():
    for whole in (False, True):
        with pytest.raises(RuntimeError, match="a leaf Variable that requires grad .* used in an in-place operation"):
            torch.compile(lambda x: of.Dirty.apply(x), fullgraph=whole)(torch.randn(3, requires_grad=True))


def test_effects_happen_in_the_backward():
    compiled = torch.compile(lambda x: of.Telling.apply(x.sin()))
    x = torch.randn(2, requires_grad=True)
    of.calls.clear()
    total = compiled(x).sum()
    assert of.calls == []
    total.backward()
    assert of.calls == [(2,)]


def test_a_list_of_the_functions_own_is_not_written_early():
    class Noting(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, log):
            ctx.log = log
            return x * 2

        @staticmethod
        def backward(ctx, g):
            ctx.log.append("backward")
            return 2 * g, None

    def function(x):
        log = []
        return Noting.apply(x.sin(), log), log

    result, log = torch.compile(function)(torch.randn(2, requires_grad=True))
    assert log == []
    result.sum().backward()
    assert log == ["backward"]
    with pytest.raises(_C.Unsupported, match="it writes into an object that is there before it runs"):
        torch.compile(function, fullgraph=True)(torch.randn(2, requires_grad=True))


class Cubed(torch.autograd.Function):
    """Saves its argument, its result and what it computed on the way."""

    @staticmethod
    def forward(ctx, x):
        square = x * x
        result = square * x
        ctx.save_for_backward(x, square, result)
        return result

    @staticmethod
    def backward(ctx, grad):
        x, _, result = ctx.saved_tensors
        return grad * (x * x + 2 * result / x)


class OnceOnly(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0] * 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_derivatives_of_its_derivative_in_one_graph(backend):
    def penalty(x):
        y = Cubed.apply(x.exp()).sum()
        (slope,) = torch.autograd.grad(y, x, create_graph=True)
        return y + (slope**2).sum()

    compiled, rows = torch.compile(penalty, backend=backend, fullgraph=True), []
    for call in (penalty, compiled):
        x = torch.linspace(-1, 1, 6).requires_grad_()
        value = call(x)
        value.backward()
        rows.append((value.detach(), x.grad))
    assert len(compiled.graphs) == 1
    for found, expected in zip(rows[1], rows[0], strict=True):
        assert torch.allclose(found, expected, rtol=1e-4)


def test_derivatives_of_what_the_interpreter_ran():
    compiled = torch.compile(lambda x: Cubed.apply(x.sin()), backend="eager", fullgraph=True)
    x = torch.linspace(0.5, 1, 4).requires_grad_()
    rows = []
    for call in (compiled, lambda x: Cubed.apply(x.sin())):
        (first,) = torch.autograd.grad(call(x).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x, create_graph=True)
        rows.append((first, second, torch.autograd.grad(second.sum(), x)[0]))
    for found, expected in zip(*rows, strict=True):
        assert torch.allclose(found, expected, rtol=1e-4)


def test_a_derivative_that_is_not_there():
    """Compiled modes have the first alone, as PyTorch's; once_differentiable says so itself."""
    x = torch.randn(4, 3, requires_grad=True)
    compiled = torch.compile(lambda x: of.Kept.apply(x.sin()), backend="aot_eager", fullgraph=True)
    with pytest.raises(RuntimeError, match="create_graph|double backward"):
        torch.autograd.grad(compiled(x).sum(), x, create_graph=True)
    compiled = torch.compile(lambda x: OnceOnly.apply(x.sin()), backend="eager", fullgraph=True)
    assert torch.allclose(torch.autograd.grad(compiled(x).sum(), x)[0], x.sin() * x.cos() * 2)
    with pytest.raises(RuntimeError, match="marked with @once_differentiable"):
        torch.autograd.grad(compiled(x).sum(), x, create_graph=True)


def test_sizes_and_numbers_stay_open():
    def function(x, rate):
        return of.Mean.apply(of.Reverse.apply(x * 2, rate) ** 2)

    compiled = torch.compile(function, fullgraph=True)
    for n, rate in ((4, 0.1), (5, 0.1), (6, 0.1), (7, 0.1), (7, 0.2), (7, 0.3), (8, 0.4), (9, 0.5)):
        x = torch.randn(n, 3, requires_grad=True)
        (got,) = torch.autograd.grad(compiled(x, rate).sum(), x)
        (expected,) = torch.autograd.grad(function(x, rate).sum(), x)
        assert torch.allclose(got, expected)
    assert compiled.entries == 3


def test_what_the_backward_read_is_guarded():
    class Scaled(torch.autograd.Function):
        scale = 2.0

        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g * Scaled.scale

    compiled = torch.compile(lambda x: Scaled.apply(x), fullgraph=True)
    x = torch.randn(3, requires_grad=True)
    for scale in (2.0, 5.0):
        Scaled.scale = scale
        (grad,) = torch.autograd.grad(compiled(x).sum(), x)
        assert grad.tolist() == [scale] * 3


def test_the_graph_of_a_backward_is_text_that_reads_back():
    compiled = torch.compile(lambda x: of.Kept.apply(x.sin()), backend="eager", fullgraph=True)
    x = torch.randn(4, 3, requires_grad=True)
    compiled(x)
    (graph,) = compiled.graphs
    text = graph.text()
    assert 'narthex::function("KeptBackward"' in text and "graph captured {" in text.split("KeptBackward")[1]
    again = _C.Graph.parse(text)
    again.verify()
    assert again.text() == text


def test_nothing_of_it_is_left_at_lower_levels():
    seen = []

    def backend(gm, inputs):
        from narthex._dynamo.backends.common import aot_autograd

        def look(gm, inputs):
            seen.append(gm.code)
            return gm

        return aot_autograd(fw_compiler=look, bw_compiler=look)(gm, inputs)

    compiled = torch.compile(lambda x: of.Reverse.apply(x.sin(), 0.5), backend=backend)
    x = torch.randn(3, requires_grad=True)
    compiled(x).sum().backward()
    forward, backward = seen
    assert "function" not in forward.replace("functional", "") and "neg" in backward and "neg" not in forward


def test_a_graph_that_is_edited_has_it():
    def backend(gm, inputs):
        (sin,) = (node for node in gm.graph.nodes if node.target == "sin")
        sin.target = "cos"
        gm.graph.lint()
        gm.recompile()
        return gm

    compiled = torch.compile(lambda x: of.Reverse.apply(x.sin(), 0.5), backend=backend)
    x = torch.randn(3, requires_grad=True)
    result = compiled(x)
    result.sum().backward()
    assert torch.allclose(result, x.cos()) and torch.allclose(x.grad, 0.5 * x.detach().sin())


def test_casts_of_the_forward_are_not_the_backwards():
    def function(x, w):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return of.Once.apply(x @ w)

    x, w = torch.randn(4, 3, requires_grad=True), torch.randn(3, 3)
    (got,) = torch.autograd.grad(torch.compile(function, fullgraph=True)(x, w).sum(), x)
    (expected,) = torch.autograd.grad(function(x, w).sum(), x)
    assert got.dtype == expected.dtype and torch.allclose(got, expected, rtol=0.02)


def test_memory_goes_with_the_graph(live):
    compiled = torch.compile(lambda x: of.Two.apply(x, x.sin())[1], backend="eager")
    x = torch.randn(4, 3, requires_grad=True)
    compiled(x).sum().backward()
    before = live()
    for _ in range(3):
        compiled(x)
        compiled(x).sum().backward()
    assert live() == before


def test_attributes_of_a_partial_that_lives_on():
    """functools.partialmethod gives them, too."""

    def f(x):
        made = functools.partial(torch.add, x)
        made.tag, made.name = x * 2, "n"
        return made

    compiled = torch.compile(f, fullgraph=True)
    for _ in range(2):
        x = torch.randn(3)
        made = compiled(x)
        assert torch.equal(made.tag, x * 2) and made.name == "n" and torch.equal(made(1), x + 1)
