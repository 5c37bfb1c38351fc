"""Hooks that a compiled function registers, beside eager mode: a backward inside of the graph follows them, and each
run registers those of leaves and arguments that live on."""

import narthex as torch
import pytest
from narthex import _C, nn

from .conftest import in_every_way
from .test_made_leaves import check, facts

GOT = []


def of_a_leaf(x):
    d = torch.ones(3, requires_grad=True)
    d.register_hook(lambda g: g * 2)
    return d, (d * x).sum()


def in_order(x):
    d = torch.ones(3, requires_grad=True)
    d.register_hook(lambda g: g * 2)
    handle = d.register_hook(lambda g: g * 100)
    d.register_hook(lambda g: g + 1)
    handle.remove()
    return d, (d * x).sum()


def inside(x):
    d = torch.ones(3, requires_grad=True)
    d.register_hook(lambda g: g * 2)
    (d * x).sum().backward()
    return d.grad


def inside_and_outside(x):
    d = torch.ones(3, requires_grad=True)
    d.register_hook(lambda g: g * 2)
    (d * x).sum().backward()
    return d, (d * d).sum()


def of_an_intermediate(x):
    d = torch.ones(3, requires_grad=True)
    y = d * 3
    y.register_hook(lambda g: g.clamp(max=1) * 2)
    y.register_hook(lambda g: None)
    (y * x + d).sum().backward()
    return d.grad


def that_keeps(x):
    got = []
    d = torch.ones(3, requires_grad=True)
    y = d * 3
    y.register_hook(lambda g: got.append(g))
    (y * x).sum().backward()
    return d.grad, got


def that_keeps_outside(x):
    d = torch.ones(3, requires_grad=True)
    y = d * 3
    y.register_hook(GOT.append)
    (y * x).sum().backward()
    return d.grad


def asked_for(x):
    d = torch.ones(3, requires_grad=True)
    y = d * 3
    y.register_hook(lambda g: g * 2)
    return torch.autograd.grad((y * x).sum(), [d, y])


def gradient_kept(x):
    d = torch.ones(3, requires_grad=True)
    y = d * 3
    y.retain_grad()
    (y * x).sum().backward()
    return d.grad, y.grad


def after_accumulation(x):
    def tripled(leaf):
        leaf.grad.mul_(3)

    d = torch.ones(3, requires_grad=True)
    d.register_post_accumulate_grad_hook(tripled)
    (d * x).sum().backward()
    (d * x).sum().backward()
    return d.grad, (d.grad * 2)


def after_accumulation_outside(x):
    def tripled(leaf):
        leaf.grad.mul_(3)

    d = torch.ones(3, requires_grad=True)
    d.register_post_accumulate_grad_hook(tripled)
    return d, (d * x).sum()


def hidden(x):
    d = torch.ones(3, requires_grad=True)
    d.register_hook(lambda g: GOT.append(g.detach().clone()))
    return (d * x).sum()


def of_a_module(x):
    net = nn.Linear(3, 3)
    net.weight.register_hook(lambda g: g * 2)
    net.register_forward_hook(lambda net, args, result: result * 2)
    return net.weight, net(x)


def of_an_argument(x):
    if x.requires_grad:
        x.register_hook(lambda g: g * 3)
    return (x * 2).sum()


def that_is_an_operator(x):
    d = torch.ones(3, requires_grad=True)
    d.register_hook(torch.neg)
    (d * x).sum().backward()
    return d.grad


def that_gives_an_argument(x):
    d = torch.ones(2, 3, requires_grad=True)
    d.register_hook(lambda g: x.detach())
    (d * x).sum().backward()
    return d.grad


def refused(x):
    try:
        x.detach().register_hook(lambda g: g)
    except RuntimeError as error:
        return str(error)


def of_a_wrong_size(x):
    d = torch.ones(3, requires_grad=True)
    d.register_hook(lambda g: g[:1])
    try:
        (d * x).sum().backward()
    except RuntimeError as error:
        return str(error)


WHOLE = [value for value in list(globals().values()) if getattr(value, "__module__", "") == __name__]


def of_what_comes_out(x):
    y = (x * 2).tanh()
    if y.requires_grad:
        y.register_hook(lambda g: g * 5)
    return y.sum(), y


def handle_comes_out(x):
    d = torch.ones(3, requires_grad=True)
    handle = d.register_hook(lambda g: g * 5)
    y = (d * x).sum()
    return d, y, handle


ENDING = [of_what_comes_out, handle_comes_out]


def history(function, call, requires_grad):
    found = []
    GOT.clear()
    torch.manual_seed(0)
    for number in range(4):
        x = (torch.arange(6.0).view(2, 3) + number).requires_grad_(requires_grad)
        result = call(x)
        results = [leaf for leaf in (result if isinstance(result, tuple) else (result,)) if not hasattr(leaf, "remove")]
        found += facts(results) + facts(x)
        for leaf in results:
            if isinstance(leaf, torch.Tensor) and leaf.requires_grad:
                leaf.sum().backward(retain_graph=True)
        found += facts(results) + facts(x) + facts(list(GOT))
    return found


@in_every_way
@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("function", WHOLE + ENDING)
@pytest.mark.filterwarnings("ignore")
def test_as_eager(function, requires_grad, options):
    expected = history(function, function, requires_grad)
    compiled = torch.compile(function, fullgraph=function in WHOLE, **options)
    check(expected, history(function, compiled, requires_grad))
    if function in WHOLE and function not in (that_keeps_outside, hidden):
        assert compiled.entries == 1


@pytest.mark.parametrize("function", ENDING)
def test_what_ends_the_graph(function):
    with pytest.raises(_C.Unsupported):
        torch.compile(function, fullgraph=True)(torch.ones(2, 3, requires_grad=True))


def test_hooks_after_accumulation_of_inputs():
    """A backward into chosen leaves calls what is registered there, too."""
    seen = []
    w = torch.ones(2, requires_grad=True)
    w.register_post_accumulate_grad_hook(lambda leaf: seen.append(leaf.grad.clone()))
    torch.autograd.backward((w * 3).sum(), inputs=[w])
    assert len(seen) == 1 and seen[0].tolist() == [3, 3]
