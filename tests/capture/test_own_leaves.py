"""Leaves that a compiled function makes: their gradients are values of its graph, beside eager mode. Those that live
on: test_made_leaves.py."""

import narthex as torch
import narthex.nn.functional as F
import pytest
from narthex import _C, nn

SIZE = 0.01


def by_factory(net, x, y):
    d = torch.zeros_like(x, requires_grad=True)
    F.cross_entropy(net(x + d), y).backward()
    return 0.1 * d.grad.sign()


def by_clone(net, x, y):
    x = x.clone().detach().requires_grad_(True)
    F.cross_entropy(net(x), y).backward()
    return (x + 0.1 * x.grad.sign()).detach()


def in_place(net, x, y):
    d = torch.zeros_like(x).requires_grad_()
    for _ in range(3):
        F.cross_entropy(net(x + d), y).backward()
        with torch.no_grad():
            d += SIZE * d.grad.sign()
            d.clamp_(-2 * SIZE, 2 * SIZE)
        d.grad.zero_()
    return d.detach()


def made_anew(net, x, y):
    d = torch.zeros_like(x)
    for _ in range(3):
        d.requires_grad_()
        F.cross_entropy(net(x + d), y).backward()
        d = (d + SIZE * d.grad.sign()).clamp(-2 * SIZE, 2 * SIZE).detach()
    return d


def added_up(net, x, y):
    d = torch.zeros_like(x, requires_grad=True)
    before = d.grad is None
    for _ in range(2):
        F.cross_entropy(net(x + d), y).backward()
    first = d.grad.clone()
    d.grad = None
    (d * 3).sum().backward()
    return first + d.grad + before


def two_leaves(net, x, y):
    a, b = torch.zeros_like(x, requires_grad=True), torch.ones(4, requires_grad=True)
    loss = F.cross_entropy(net((x + a) * b), y)
    loss.backward(retain_graph=True)
    (ga,) = torch.autograd.grad(loss, a)
    return a.grad + ga, b.grad


def beside_the_caller(net, x, y):
    """What is returned leads to the caller's parameters and to a leaf that nobody sees any more."""
    d = torch.full_like(x, 0.1, requires_grad=True)
    loss = F.cross_entropy(net(x + d), y)
    (g,) = torch.autograd.grad(loss, d, retain_graph=True)
    return loss + g.sum()


def given_back(net, x, y):
    d = torch.zeros_like(x, requires_grad=True)
    F.cross_entropy(net(x + d), y).backward()
    return d


def kept(net, x, y):
    net.delta = torch.zeros(4, requires_grad=True)
    F.cross_entropy(net(x + net.delta), y).backward()
    return net.delta.grad * 2


def of_its_own_alone(net, x, y):
    return (torch.ones(4, requires_grad=True) * x).sum()


def stepped(net, x, y):
    d = torch.zeros_like(x, requires_grad=True)
    optimizer = torch.optim.SGD([d], lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        F.cross_entropy(net(x + d), y).backward()
        optimizer.step()
    return d.detach()


def through_data(net, x, y):
    d = torch.zeros_like(x, requires_grad=True)
    for _ in range(2):
        F.cross_entropy(net(x + d), y).backward()
        d.data = (d + SIZE * d.grad.detach().sign()).clamp(-2 * SIZE, 2 * SIZE)
        d.grad.zero_()
    return d.detach()


WHOLE = [by_factory, by_clone, in_place, made_anew, added_up, two_leaves, beside_the_caller]
WHOLE += [given_back, kept, of_its_own_alone, stepped, through_data]


def history_through_data(net, x, y):
    h = net[0](x)
    h.data = h.data + 1
    return F.cross_entropy(net[2](h), y)


ENDING = [history_through_data]


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


def run(function, wrap):
    net = network()
    step = wrap(lambda x, y: function(net, x, y))
    results = []
    for _ in range(3):
        found = step(torch.randn(5, 4), torch.tensor([0, 1, 2, 0, 1]))
        for result in found if isinstance(found, tuple) else (found,):
            results += [
                result.detach().clone(),
                torch.tensor([result.requires_grad, result.is_leaf, result.grad is None]),
            ]
            if result.requires_grad and not result.is_leaf:
                result.sum().backward()
    return results + [torch.zeros(()) if p.grad is None else p.grad for p in net.parameters()]


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
@pytest.mark.parametrize("function", WHOLE + ENDING)
@pytest.mark.filterwarnings("ignore")
def test_as_eager(function, mode):
    expected = run(function, lambda step: step)
    found = run(function, lambda step: torch.compile(step, fullgraph=function in WHOLE, mode=mode))
    for a, b in zip(expected, found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("function", ENDING)
def test_what_ends_the_graph(function):
    net = network()
    with pytest.raises(_C.Unsupported):
        torch.compile(lambda x, y: function(net, x, y), fullgraph=True)(torch.randn(2, 4), torch.tensor([0, 1]))
