"""torch.autograd.grad in captured functions: one graph, eager's numbers, and gradients of gradients."""

import narthex as torch
import pytest
from narthex import _C, nn
from narthex.nn import functional

torch.manual_seed(0)
NET = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 1))


def equation(x):
    """The residual of a differential equation: second derivatives by a leaf of the function's own."""
    x = x.detach().clone().requires_grad_()
    u = NET(x)
    (first,) = torch.autograd.grad(u.sum(), x, create_graph=True)
    second = sum(torch.autograd.grad(first[:, i].sum(), x, create_graph=True)[0][:, i] for i in range(3))
    return (second**2).mean() + (u**2).mean()


def penalty(x):
    y = NET(x)
    (g,) = torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)
    return y.mean() + ((g.norm(dim=1) - 1) ** 2).mean()


def forces(x):
    x = x.detach().clone().requires_grad_()
    return -torch.autograd.grad(NET(x).sum(), x)[0]


def composed(x):
    loss = functional.cross_entropy(x * 2, torch.tensor([0, 1, 2, 0])) + functional.layer_norm(x, (3,)).pow(2).sum()
    loss = loss + functional.dropout(x, 0.5).sum() + functional.scaled_dot_product_attention(x, x.sin(), x).sum()
    return torch.autograd.grad(loss, x)[0]


def of_an_intermediate(x):
    h = x.tanh()
    y = (h @ h.t()).exp().sum()
    (g,) = torch.autograd.grad(y, h, create_graph=True)
    return (g * h).sum()


def unused(x):
    y = x * 2
    return torch.autograd.grad(x.sum(), (x, y), allow_unused=True)[0]


def under_no_grad(x):
    with torch.no_grad():
        y = x * 2
    with torch.enable_grad():
        (g,) = torch.autograd.grad((x * y).sum(), x)
    return g.requires_grad, g


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "narthex"])
@pytest.mark.parametrize("function", [equation, penalty, forces, composed, of_an_intermediate, unused, under_no_grad])
def test_one_graph(function, backend):
    compiled = torch.compile(function, backend=backend, fullgraph=True)
    leaf = function not in (equation, forces)
    rows = []
    for call in (function, compiled, compiled):
        NET.zero_grad()
        torch.manual_seed(3)
        x = torch.randn(4, 3, requires_grad=leaf)
        result = call(x)
        result = result[1] if isinstance(result, tuple) else result
        if result.requires_grad:
            result.sum().backward()
        grads = [p.grad for p in (x, *NET.parameters())]
        rows.append((result.detach(), result.requires_grad, grads))
    assert len(compiled.graphs) == 1
    for result, requires_grad, grads in rows[1:]:
        assert torch.allclose(result, rows[0][0], atol=1e-6) and requires_grad == rows[0][1]
        for got, expected in zip(grads, rows[0][2], strict=True):
            assert (got is None) == (expected is None)
            assert got is None or torch.allclose(got, expected, rtol=1e-4, atol=1e-6)


def test_other_sizes_are_one_graph_more():
    compiled = torch.compile(forces, fullgraph=True)
    for n in (2, 3, 5, 3, 1, 8):
        x = torch.randn(n, 3)
        assert torch.allclose(compiled(x), forces(x), atol=1e-6)
    assert compiled.entries == 2


def test_a_tensor_with_a_history_of_its_own_leaves_keeps_it():
    def energy(x):
        x = (x * 2).detach().requires_grad_()
        e = (x.sin() ** 2).sum()
        return e, torch.autograd.grad(e, x, retain_graph=True)[0]

    compiled = torch.compile(energy, fullgraph=True)
    for _ in range(2):
        x = torch.randn(4)
        (e, g), (expected, its) = compiled(x), energy(x)
        assert torch.allclose(e, expected) and torch.allclose(g, its)
        assert e.requires_grad and not g.requires_grad
        e.backward()


def test_errors_are_eagers():
    def function(x):
        return torch.autograd.grad(x.sum(), x * 2)[0]

    x = torch.ones(3, requires_grad=True)
    for call in (function, torch.compile(function)):
        with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
            call(x)


def test_backward_into_leaves():
    def function(x):
        (x * NET[0].weight).sum().backward()
        return x * 2

    NET.zero_grad()
    torch.compile(function, fullgraph=True)(torch.ones(3))
    assert NET[0].weight.grad.tolist() == [[1.0] * 3] * 8


def written(x):
    y = x * 2
    y.mul_(x)
    y[0] = 1.0
    return torch.autograd.grad(y.sum(), x)[0]


def penalised(x):
    return torch.autograd.grad((x * x).sum(), x)[0]


def before(x, y):
    return torch.autograd.grad(y.sum(), x)[0]


def test_what_the_trace_does_not_know_ends_the_graph():
    x = torch.randn(3, requires_grad=True)
    assert torch.allclose(torch.compile(written)(x), written(x))
    with pytest.raises(_C.Unsupported, match="of tensors that are written"):
        torch.compile(written, fullgraph=True)(x)
    for call in (before, torch.compile(before)):
        assert torch.allclose(call(x, x.sin()), x.cos())
    with pytest.raises(_C.Unsupported, match="a history from before the graph"):
        torch.compile(before, fullgraph=True)(x, x.sin())
    x.register_hook(lambda g: 100 * g)
    assert torch.allclose(torch.compile(of_an_intermediate)(x[None]), of_an_intermediate(x[None]))
    assert torch.allclose(torch.compile(penalised)(x), penalised(x))
    with pytest.raises(_C.Unsupported, match="of a tensor with hooks"):
        torch.compile(penalised, fullgraph=True)(x)
