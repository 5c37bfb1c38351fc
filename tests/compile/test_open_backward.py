"""Backwards that a compiled function runs itself, while its sizes change: one graph more, and PyTorch's numbers."""

from __future__ import annotations

import narthex
import pytest
import torch as pt

SIZES = (5, 5, 7, 9, 3, 1, 12, 2, 8, 30)


def classifier(t):
    net = t.nn.Sequential(t.nn.Linear(8, 16), t.nn.GELU(), t.nn.LayerNorm(16), t.nn.Linear(16, 4))
    optimizer = t.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    def step(x, y):
        optimizer.zero_grad()
        loss = t.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        t.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        return loss

    return net, step, lambda n: (t.randn(n, 8), t.randint(0, 4, (n,)))


def images(t):
    net = t.nn.Sequential(
        *(
            t.nn.Conv2d(3, 4, 3, padding=1, bias=False),
            t.nn.BatchNorm2d(4),
            t.nn.ReLU(),
            t.nn.MaxPool2d(2),
            t.nn.Flatten(),
        ),
        *(t.nn.Dropout(0.3), t.nn.Linear(64, 4)),
    )
    optimizer = t.optim.SGD(net.parameters(), lr=0.01)

    def step(x, y):
        optimizer.zero_grad()
        loss = t.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return net, step, lambda n: (t.randn(n + 1, 3, 8, 8), t.randint(0, 4, (n + 1,)))


def sequences(t):
    """Two sizes change, and attention's numbers depend on them."""
    net = t.nn.ModuleList([t.nn.TransformerEncoderLayer(16, 4, 32, 0.0, batch_first=True), t.nn.Linear(16, 4)])
    optimizer = t.optim.SGD(net.parameters(), lr=0.1)

    def step(x, y):
        optimizer.zero_grad()
        loss = t.nn.functional.cross_entropy(net[1](net[0](x).mean(1)), y) / x.size(1)
        loss.backward()
        optimizer.step()
        return loss

    return net, step, lambda n: (t.randn(n, n + 3, 16), t.randint(0, 4, (n,)))


def accumulated(t):
    """Several backwards in one graph, of which the second adds to what the first has left."""
    net = t.nn.Sequential(t.nn.Linear(4, 8), t.nn.Tanh(), t.nn.Linear(8, 1))
    optimizer = t.optim.SGD(net.parameters(), lr=0.1)

    def step(x, y):
        optimizer.zero_grad()
        for part in x.split(4, 1):
            loss = ((net(part) - y) ** 2).mean()
            loss.backward()
        optimizer.step()
        return loss

    return net, step, lambda n: (t.randn(n, 12), t.randn(n, 1))


def penalty(t):
    """A gradient that is differentiated again, by a leaf that the function makes."""
    net = t.nn.Sequential(t.nn.Linear(4, 8), t.nn.Softplus(), t.nn.Linear(8, 1))
    optimizer = t.optim.SGD(net.parameters(), lr=0.1)

    def step(x, y):
        optimizer.zero_grad()
        x = x.detach().clone().requires_grad_()
        out = net(x)
        (slope,) = t.autograd.grad(out.sum(), x, create_graph=True)
        loss = ((out - y) ** 2).mean() + ((slope.norm(dim=1) - 1) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    return net, step, lambda n: (t.randn(n, 4), t.randn(n, 1))


def adversarial(t):
    """A leaf that is written between backwards into its own gradient."""
    net = t.nn.Linear(4, 3)
    optimizer = t.optim.SGD(net.parameters(), lr=0.1)

    def step(x, y):
        d = t.zeros_like(x).requires_grad_()
        for _ in range(2):
            ((net(x + d) - y) ** 2).mean().backward()
            with t.no_grad():
                d += 0.1 * d.grad.sign()
            d.grad.zero_()
        optimizer.zero_grad()
        loss = ((net(x + d.detach()) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    return net, step, lambda n: (t.randn(n, 4), t.randn(n, 3))


def inner_loop(t):
    """Steps of which the last loss is differentiated by what was there before the first."""
    net = t.nn.Linear(4, 1)
    optimizer = t.optim.SGD(net.parameters(), lr=0.1)

    def step(x, y):
        optimizer.zero_grad()
        w, b = net.weight, net.bias
        for _ in range(2):
            loss = ((t.nn.functional.linear(x, w, b) - y) ** 2).mean()
            slopes = t.autograd.grad(loss, (w, b), create_graph=True)
            w, b = w - 0.1 * slopes[0], b - 0.1 * slopes[1]
        loss = ((t.nn.functional.linear(x * 2, w, b) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    return net, step, lambda n: (t.randn(n, 4), t.randn(n, 1))


def checkpointed(t):
    from importlib import import_module

    checkpoint = import_module(f"{t.__name__}.utils.checkpoint").checkpoint
    net = t.nn.Sequential(t.nn.Linear(8, 16), t.nn.GELU(), t.nn.Dropout(0.2), t.nn.Linear(16, 4))
    optimizer = t.optim.SGD(net.parameters(), lr=0.1)

    def step(x, y):
        optimizer.zero_grad()
        loss = t.nn.functional.cross_entropy(checkpoint(net, x, use_reentrant=False), y)
        loss.backward()
        optimizer.step()
        return loss

    return net, step, lambda n: (t.randn(n, 8), t.randint(0, 4, (n,)))


def own_backward(t):
    class Curve(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.exp()

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * x.cos() * x.size(0)

    net = t.nn.Linear(4, 3)
    optimizer = t.optim.SGD(net.parameters(), lr=0.01)

    def step(x, y):
        optimizer.zero_grad()
        loss = ((Curve.apply(net(x)) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    return net, step, lambda n: (t.randn(n, 4), t.randn(n, 3))


def of_an_argument(t):
    """What comes back has a history to the argument and to the parameters."""
    net = t.nn.Sequential(t.nn.Linear(3, 8), t.nn.Tanh(), t.nn.Linear(8, 1))

    def step(x, y):
        (force,) = t.autograd.grad(net(x).sum(), x, create_graph=True)
        return (force * y).sum() / x.shape[0]

    return net, step, lambda n: (t.randn(n, 3, requires_grad=True), t.randn(n, 3))


def run(t, make, wrap=lambda step: step):
    """Losses, gradients and state after a step of each size; the step."""
    t.manual_seed(0)
    net, step, batch = make(t)
    step = wrap(step)
    losses = []
    for n in SIZES:
        loss = step(*batch(n))
        if loss.requires_grad and make is of_an_argument:
            loss.backward()
        losses.append(loss.item())
    gradients = [p.grad.tolist() for p in net.parameters() if p.grad is not None]
    return losses, gradients, [value.tolist() for value in net.state_dict().values()], step


PROGRAMS = (classifier, images, sequences, accumulated, penalty, adversarial, inner_loop, checkpointed, own_backward)


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("make", [*PROGRAMS, of_an_argument])
def test_sizes_stay_open(make, dynamic, mode):
    def wrap(step):
        return narthex.compile(step, fullgraph=True, dynamic=dynamic, mode=mode)

    *found, step = run(narthex, make, wrap)
    for own, expected, its in zip(found, run(narthex, make), run(pt, make)):
        for a, b, c in zip(own, expected, its, strict=True):
            narthex.testing.assert_close(narthex.tensor(a), narthex.tensor(b), rtol=1e-5, atol=1e-6)
            narthex.testing.assert_close(narthex.tensor(a), narthex.tensor(c), rtol=1e-4, atol=1e-5)
    n_states = 2 if make in (classifier, adversarial) else 1  # the first call leaves what was not there
    assert step.entries == n_states + (dynamic is None)


def test_hooks_have_a_graph_for_each_size():
    """What the program registers runs as Python, with the numbers of the trace."""

    @narthex.compile(fullgraph=True)
    def slope(x):
        y = x * 2
        y.register_hook(lambda g: g * 3)
        return narthex.autograd.grad((y**2).sum(), x)[0]

    for n in (2, 3, 4):
        x = narthex.ones(n, requires_grad=True)
        assert slope(x).tolist() == [24.0] * n
    assert slope.entries == 3


def test_layouts_of_gradients_are_checked():
    """A gradient that lies as its leaf does becomes the leaf's own; where sizes change that, the trace is another."""
    w = narthex.randn(4, 1, requires_grad=True)

    def step(x):
        w.grad = None
        (x @ w).pow(2).sum().backward()
        return w.grad.stride(), w.grad * 1

    compiled = narthex.compile(step, fullgraph=True, dynamic=True)
    for n in (3, 1, 2, 5, 1):
        x = narthex.randn(n, 4)
        (strides, found), (its, expected) = compiled(x), step(x)
        assert strides == its and narthex.allclose(found, expected)
