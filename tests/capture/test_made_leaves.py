"""Leaves, parameters and modules that a compiled function makes and that live on: what comes out is eager mode's, with
its history."""

import copy

import narthex as torch
import pytest
from narthex import _C, nn
from narthex.utils import _pytree

from .conftest import in_every_way

NET = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.ReLU(), nn.Linear(3, 1))
BEGINNING = copy.deepcopy(NET.state_dict())
KEPT = []


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(3, 3))
        self.register_buffer("b", torch.ones(3))
        self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(2)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x @ self.w + self.b


def leaf_alone(x):
    return torch.zeros(3, requires_grad=True)


def leaf_and_result(x):
    d = x.clone().detach().requires_grad_()
    return d, (d * x).sum()


def leaf_twice(x):
    d = torch.ones(3, requires_grad=True)
    return d, [d, d * x]


def parameter(x):
    return nn.Parameter(torch.randn(3))


def parameter_hidden(x):
    return nn.Parameter(torch.ones(3)) * x


def parameter_without_gradient(x):
    return nn.Parameter(torch.ones(3), requires_grad=False)


def parameter_and_its_data(x):
    w = torch.ones(3)
    p = nn.Parameter(w)
    w.mul_(2)
    return w, p, p.sum()


def linear(x):
    return nn.Linear(3, 2)


def linear_and_result(x):
    net = nn.Linear(3, 2)
    return net, net(x).sum()


def linear_without_history(x):
    with torch.no_grad():
        net = nn.Linear(3, 2)
        y = net(x)
    return net, y


def gradient_comes_along(x):
    d = torch.ones(3, requires_grad=True)
    (d * x).sum().backward()
    return d, (d * d).sum()


def stepped(x):
    d = torch.ones(3, requires_grad=True)
    for _ in range(2):
        (d * x).sum().backward()
        with torch.no_grad():
            d -= 0.1 * d.grad
        d.grad = None
    return d, (d * d).sum()


def frozen(x):
    net = nn.Linear(3, 3)
    net.weight.requires_grad_(False)
    y = net(x).sum()
    net.bias.requires_grad = False
    return net, y


def evaluated(x):
    net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout(0.5), nn.ReLU())
    net.eval()
    return net, net(x)


def stack(x):
    net = Stack()
    return net, net(x)


def recurrent(x):
    return nn.GRU(3, 4, batch_first=True)(x[None])[0]


def attention(x):
    return nn.TransformerEncoderLayer(3, 1, 4, dropout=0.0, batch_first=True)(x[None])


def embedding(x):
    net = nn.Embedding(4, 3)
    return net, net(torch.tensor([1, 2]))


def parameter_list(x):
    params = nn.ParameterList([torch.ones(3)])
    return params, params[0] * x


def loaded(x):
    net = nn.Linear(3, 3)
    net.load_state_dict(NET[0].state_dict())
    return net(x)


def called_with_others(x):
    net = nn.Linear(3, 3)
    return torch.func.functional_call(net, {name: p * 2 for name, p in net.named_parameters()}, (x,))


def stored(x):
    NET.extra = torch.zeros(3, requires_grad=True)
    return NET.extra * x


def appended(x):
    KEPT.append(nn.Parameter(torch.ones(2)))
    return KEPT[-1] * 2


def replaced(x):
    NET[3] = nn.Linear(3, 1)
    return NET(x)


def copied(x):
    net = copy.deepcopy(NET)
    return net, net(x).sum()


def copied_parameter(x):
    p = copy.deepcopy(NET[0].weight)
    return p, p is NET[0].weight, (x @ p).sum()


def copied_gradient(x):
    NET(x).sum().backward()
    return copy.deepcopy(NET[0]).weight.grad


def target(x):
    net = copy.deepcopy(NET)
    for p in net.parameters():
        p.requires_grad = False
    net.train(False)
    return net, net(x)


def adapted(x):
    net = copy.deepcopy(NET)
    for _ in range(2):
        slopes = torch.autograd.grad(net(x).pow(2).sum(), list(net.parameters()))
        with torch.no_grad():
            for p, slope in zip(net.parameters(), slopes):
                p -= 0.1 * slope
    return net(x).sum().detach()


def adapted_by_optimizer(x):
    net = copy.deepcopy(NET)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        loss = net(x).pow(2).sum()
        loss.backward()
        optimizer.step()
    return net, loss.detach()


def attacked(x):
    d = torch.zeros(3, requires_grad=True)
    optimizer = torch.optim.Adam([d], lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        (d * x - 1).pow(2).sum().backward()
        optimizer.step()
    return d.detach()


def resized(x):
    y = x.detach().clone()
    first = y[0]
    y.resize_(4, 3)
    y[2:] = 7
    y.view(-1)[5:] = 1
    return y, first, (x.detach() * 2).resize_(2), torch.empty(0).resize_as_(y).copy_(y)


def resized_to_its_size(x):
    return x.detach().resize_(2, 3)


def data_of_others(x):
    a, b, c = torch.zeros(3), torch.ones(3), torch.zeros(2, 3)
    a.data = b
    b.add_(1)
    a.mul_(3)
    c.data = x.detach()
    d = torch.zeros(3)
    d.data = d.data.double() + 1
    return a, b, c + 1, d, d * 2


def decided(x):
    d = torch.zeros(3, requires_grad=True)
    return (d, d.sum()) if x.sum() > 0 else (d, (d * 2).sum())


WHOLE = [
    value for value in list(globals().values()) if getattr(value, "__module__", "") == __name__ and value is not Stack
]


def over_an_input(x):
    return nn.Parameter(x)


def with_a_view(x):
    d = (x * 2).detach()
    first = d[0]
    d.requires_grad_()
    with torch.no_grad():
        first.mul_(3)
    return d, d.sum()


def through_data(x):
    d = torch.zeros(3, requires_grad=True)
    d.data = d.data + 1
    return d, d.sum()


def ids(x):
    net = nn.Linear(3, 3)
    return {id(p) for p in net.parameters()} == {id(p) for p in (net.weight, net.bias)}, str(id(net)) == str(id(net))


ENDING = [over_an_input, with_a_view, through_data, ids]


def facts(result):
    """What can be told of what came out, by value."""
    found = []
    for leaf in _pytree.tree_leaves(result):
        if isinstance(leaf, nn.Module):
            found += [type(leaf), sorted(vars(leaf)), leaf.training, leaf._modules.keys()]
            for name, tensor in [*leaf.named_parameters(), *leaf.named_buffers()]:
                found += [name, *facts(tensor)]
        elif isinstance(leaf, torch.Tensor):
            grad = leaf.grad.clone() if leaf.is_leaf and leaf.grad is not None else None
            found += [type(leaf), leaf.is_leaf, leaf.requires_grad, leaf._is_param, leaf.stride()]
            found += [leaf.detach().clone(), grad]
        else:
            found.append(leaf)
    return found


def history(function, call, requires_grad):
    """Four calls, each with a backward through what came out."""
    torch.manual_seed(0)
    NET.__dict__.pop("extra", None)
    NET[3] = nn.Linear(3, 1)
    NET.load_state_dict(BEGINNING)
    NET.zero_grad()
    KEPT.clear()
    found, alive = [], []
    for number in range(4):
        x = (torch.arange(6.0).view(2, 3) + number).requires_grad_(requires_grad)
        result = call(x)
        alive.append(result)
        found += facts(result) + facts(x)
        for leaf in _pytree.tree_leaves(result):
            if isinstance(leaf, torch.Tensor) and leaf.requires_grad:
                leaf.sum().backward(retain_graph=True)
        found += facts(result) + facts(x) + facts(NET) + facts(KEPT)
    made = [leaf for result in alive for leaf in _pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
    return [*found, len({id(leaf) for leaf in made})]


def check(expected, found):
    assert len(expected) == len(found)
    for number, (a, b) in enumerate(zip(expected, found)):
        if isinstance(a, torch.Tensor):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
        else:
            assert a == b, number


@in_every_way
@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("function", WHOLE + ENDING)
@pytest.mark.filterwarnings("ignore")
def test_as_eager(function, requires_grad, options):
    expected = history(function, function, requires_grad)
    found = history(function, torch.compile(function, fullgraph=function in WHOLE, **options), requires_grad)
    check(expected, found)


@pytest.mark.parametrize("function", ENDING)
def test_what_ends_the_graph(function):
    with pytest.raises(_C.Unsupported):
        torch.compile(function, fullgraph=True)(torch.ones(2, 3))


def test_a_hidden_leaf_does_not_stay():
    """A leaf that nobody has is gone with what leads to it, and none is kept from call to call."""
    import weakref

    compiled = torch.compile(lambda x: nn.Parameter(torch.ones(2)) * x, fullgraph=True)
    compiled(torch.ones(2))
    first = torch.compile(lambda x: nn.Parameter(torch.ones(2)), fullgraph=True)
    first(torch.ones(2))
    made = first(torch.ones(2))
    gone = weakref.ref(made)
    del made
    assert gone() is None


def test_sizes_that_change():
    """A leaf of the size of an input: the number is guarded."""

    def function(x):
        d = torch.zeros_like(x, requires_grad=True)
        return d, (d + x).sum()

    compiled = torch.compile(function, fullgraph=True)
    for n in (2, 3, 4, 5, 4):
        d, loss = compiled(torch.ones(n))
        loss.backward()
        assert d.shape == (n,) and d.grad.tolist() == [1.0] * n and loss == n
