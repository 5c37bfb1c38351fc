"""torch.utils.checkpoint in captured functions: one graph, eager's numbers, no more memory kept than in eager mode."""

import importlib.util

import narthex as torch
import pytest
from narthex import _C, _memory
from narthex.utils.checkpoint import checkpoint, checkpoint_sequential, create_selective_checkpoint_contexts

MODES = ["max-autotune", "reduce-overhead"]


def network(torch, how, p=0.0, blocks=4, width=32):
    """Residual blocks, each in a checkpoint (`how`: use_reentrant; None: without)."""
    from importlib import import_module

    checkpoint = import_module(f"{torch.__name__}.utils.checkpoint").checkpoint
    nn, functional = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.wide, self.back = (
                nn.LayerNorm(width),
                nn.Linear(width, 4 * width),
                nn.Linear(4 * width, width),
            )

        def forward(self, x):
            h = functional.gelu(self.wide(self.norm(x)))
            return x + self.back(functional.dropout(h, p) if p else h)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList(Block() for _ in range(blocks))

        def forward(self, x):
            for block in self.blocks:
                x = block(x) if how is None else checkpoint(block, x, use_reentrant=how)
            return x.pow(2).mean()

    torch.manual_seed(0)
    return Net()


def step(torch, net, call, rows=16, width=32):
    """Loss, gradients, and the number that is drawn next."""
    torch.manual_seed(1)
    x = torch.randn(rows, width, requires_grad=True)
    net.zero_grad()
    loss = call(x)
    loss.backward()
    return [loss.item(), x.grad.tolist(), *(q.grad.tolist() for q in net.parameters()), torch.rand(1).item()]


def near(got, expected):
    if isinstance(expected, list):
        return len(got) == len(expected) and all(map(near, got, expected))
    return abs(got - expected) <= 1e-5 * (1 + abs(expected))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("how", [False, True])
@pytest.mark.parametrize("p", [0.0, 0.3])
def test_numbers_are_eagers(how, p, mode):
    net = network(torch, how, p)
    compiled = torch.compile(net, fullgraph=True, mode=mode)
    for _ in range(2):
        assert near(step(torch, net, compiled), step(torch, net, net))


@pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="PyTorch is not here")
@pytest.mark.parametrize("how", [False, True])
def test_numbers_are_pytorchs(how):
    import torch as real

    net, its = network(torch, how, 0.3), network(real, how, 0.3)
    assert near(step(torch, net, torch.compile(net, fullgraph=True)), step(real, its, its))


def memory(net, call, rows=256, width=32):
    """Bytes that are kept between forward and backward, and the most while the backward runs."""
    x = torch.randn(rows, width, requires_grad=True)
    call(x).backward()
    net.zero_grad()
    x.grad = None
    before = _memory.memory_allocated()
    loss = call(x)
    kept = _memory.memory_allocated() - before
    _memory.reset_peak_memory_stats()
    loss.backward()
    return kept, _memory.memory_stats()["allocated_bytes.all.peak"] - before


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("p", [0.0, 0.3])
def test_memory_falls_as_in_eager_mode(p, mode):
    plain, net = network(torch, None, p, blocks=8), network(torch, False, p, blocks=8)
    kept, most = memory(net, torch.compile(net, fullgraph=True, mode=mode))
    eager_kept, _ = memory(net, net)
    without_kept, without_most = memory(plain, torch.compile(plain, fullgraph=True, mode=mode))
    assert kept < 1.1 * eager_kept and 5 * kept < without_kept
    assert 2 * most < without_most


def sequential(x, modules):
    return checkpoint_sequential(modules, 3, x, use_reentrant=False).sum()


def nested(x, w):
    def inner(h):
        return (h @ w).tanh()

    def outer(h):
        return checkpoint(inner, h.sin(), use_reentrant=False).exp()

    return checkpoint(outer, x, use_reentrant=False).sum()


def several(x, w):
    def part(x, *, scale, shift=None):
        y = (x @ w) * scale
        return y, [y.tanh(), {"left": (y if shift is None else y + shift).sigmoid()}]

    y, (a, b) = checkpoint(part, x, use_reentrant=False, scale=2.0)
    return (y + a * b["left"]).sum()


def written(x, w):
    def part(x):
        y = x @ w
        y.relu_()
        z = y + 1
        z[0] = 2.0
        return z.tanh() * y

    return checkpoint(part, x, use_reentrant=False).sum()


def closed(x, w):
    return checkpoint(lambda: (x @ w).tanh().exp(), use_reentrant=False).sum()


def drawn(x, w):
    def part(x):
        y = torch.nn.functional.dropout((x @ w).tanh(), 0.4) + torch.rand_like(x) * x
        return torch.nn.functional.dropout(y.exp(), 0.4).sin() * torch.randn(4, 4)

    y = checkpoint(part, x, use_reentrant=False)
    return (checkpoint(part, y, use_reentrant=False) * torch.rand(4, 4)).sum()


def of_a_function(x, w):
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return 3 * g * ctx.saved_tensors[0]

    return checkpoint(lambda x: Scaled.apply(x @ w).tanh(), x, use_reentrant=False).sum()


def cast(x, w):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return checkpoint(lambda x: (x @ w).tanh() @ w, x, use_reentrant=False).float().sum()


def reentrant(x, w):
    return checkpoint(lambda x: (x @ w).tanh(), x, use_reentrant=True).sum()


@pytest.mark.parametrize("function", [nested, several, written, closed, drawn, of_a_function, cast, reentrant])
def test_kinds(function):
    torch.manual_seed(0)
    x, w = torch.randn(4, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)
    compiled = torch.compile(function, fullgraph=function is not of_a_function)
    rows = []
    for call in (function, compiled, compiled):
        torch.manual_seed(3)
        x.grad = w.grad = None
        total = call(x, w)
        total.backward()
        rows.append([total.item(), x.grad.tolist(), w.grad.tolist(), torch.rand(1).item()])
    assert near(rows[1], rows[0]) and near(rows[2], rows[0])


def test_sequential():
    torch.manual_seed(0)
    modules = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(7)))
    x = torch.randn(3, 4, requires_grad=True)
    (expected,) = torch.autograd.grad(sequential(x, modules), x)
    (got,) = torch.autograd.grad(torch.compile(sequential, fullgraph=True)(x, modules), x)
    assert torch.allclose(got, expected)


def test_the_graph_says_what_is_in_a_checkpoint():
    compiled = torch.compile(nested, fullgraph=True)
    x, w = torch.randn(4, 4, requires_grad=True), torch.randn(4, 4)
    compiled(x, w)
    text = compiled.graphs[0].text()
    assert "recompute 1 method sin" in text and "recompute 2 " in text
    assert _C.Graph.parse(text).text() == text


def test_nothing_recorded_nothing_marked():
    compiled = torch.compile(reentrant, fullgraph=True)
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        assert not compiled(torch.randn(4, 4), torch.randn(4, 4, requires_grad=True)).requires_grad
    with torch.no_grad():
        compiled(torch.randn(4, 4), torch.randn(4, 4))
    assert "recompute" not in compiled.graphs[0].text()


def loud(x, w):
    def part(x):
        y = x @ w
        print("inside")
        return y.tanh()

    return checkpoint(part, x, use_reentrant=False).sum()


def test_a_break_inside_is_eagers_checkpoint(capsys):
    x, w = torch.randn(4, 4, requires_grad=True), torch.randn(4, 4)
    (expected,) = torch.autograd.grad(loud(x, w), x)
    told = capsys.readouterr().out
    (got,) = torch.autograd.grad(torch.compile(loud)(x, w), x)
    assert torch.allclose(got, expected)
    assert told == capsys.readouterr().out == "inside\ninside\n"


def test_chosen_operators_are_eagers():
    def part(x):
        return (x @ x).tanh()

    def function(x):
        contexts = create_selective_checkpoint_contexts
        return checkpoint(part, x, use_reentrant=False, context_fn=lambda: contexts([torch.ops.aten.mm.default])).sum()

    x = torch.randn(4, 4, requires_grad=True)
    (expected,) = torch.autograd.grad(function(x), x)
    (got,) = torch.autograd.grad(torch.compile(function)(x), x)
    assert torch.allclose(got, expected)
