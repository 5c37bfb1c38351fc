"""What `autograd.grad` and `backward` differentiate by, in every way of giving it: texts and numbers as PyTorch's."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import narthex as nt
import pytest

from tests.front.both import both


class Pair(NamedTuple):
    a: Any
    b: Any


def layer(m: Any) -> Any:
    net = m.nn.Linear(2, 1)
    for parameter in net.parameters():
        parameter.data.fill_(0.5)
    return net


def plain(found: Any) -> Any:
    """Gradients as lists."""
    if found is None:
        return None
    if isinstance(found, dict):
        return {key: plain(value) for key, value in found.items()}
    if isinstance(found, (tuple, list)):
        return type(found)(plain(value) for value in found)
    return found.tolist(), found.requires_grad


def said(call: Callable) -> Any:
    """What `call` gives of either library, or the kind and the text of the error, which must be the same."""
    mine, theirs = both(call)
    if isinstance(theirs, Exception):
        assert (type(mine), str(mine)) == (type(theirs), str(theirs))
    else:
        assert mine == theirs
    return mine


def loss(m: Any, net: Any, rows: int = 1) -> Any:
    return net(m.ones(rows, 2)).square().sum()


WAYS = {
    "iterator": lambda net: net.parameters(),
    "list": lambda net: list(net.parameters()),
    "dict": lambda net: dict(net.named_parameters()),
    "named tuple": lambda net: Pair(net.weight, net.bias),
    "tensor": lambda net: net.weight,
    "another mapping": lambda net: OrderedDict(net.named_parameters()),
    "empty": lambda net: [],
    "empty iterator": lambda net: iter(()),
    "empty dict": lambda net: {},
}


@pytest.mark.parametrize("way", WAYS)
def test_inputs(way: str) -> None:
    def of_grad(m: Any) -> Any:
        net = layer(m)
        return plain(m.autograd.grad(loss(m, net), WAYS[way](net)))

    def of_backward(m: Any) -> Any:
        net = layer(m)
        m.autograd.backward(loss(m, net), inputs=WAYS[way](net))
        loss(m, net).backward(inputs=WAYS[way](net))
        return plain(net.weight.grad)

    found = said(of_grad)
    assert isinstance(found, Exception) or len(found)
    said(of_backward)


def test_outputs_and_seeds_are_read_once() -> None:
    def run(m: Any) -> Any:
        net = layer(m)
        outputs, seeds = (loss(m, net, rows) for rows in (1, 2)), (m.tensor(value) for value in (1.0, 2.0))
        found = plain(m.autograd.grad(outputs, net.parameters(), seeds))
        outputs, seeds = (loss(m, net, rows) for rows in (1, 2)), (value for value in (None, m.tensor(2.0)))
        m.autograd.backward(outputs, seeds)
        return found, plain(net.bias.grad)

    said(run)


def test_rows() -> None:
    def run(m: Any) -> Any:
        net = layer(m)
        rows = m.eye(3)[..., None]
        return plain(m.autograd.grad(net(m.ones(3, 2)), dict(net.named_parameters()), rows, is_grads_batched=True))

    said(run)


@pytest.mark.parametrize("create_graph", [False, True])
def test_unused(create_graph: bool) -> None:
    def zeros(m: Any) -> Any:
        net, other = layer(m), m.ones(2, requires_grad=True)
        given = {"used": net.weight, "other": other}
        return plain(m.autograd.grad(loss(m, net), given, create_graph=create_graph, materialize_grads=True))

    def of_an_edge(m: Any) -> Any:
        net, other = layer(m), m.ones(2, requires_grad=True)
        edge = m.autograd.graph.get_gradient_edge(other)
        return m.autograd.grad(loss(m, net), [edge, net.weight], materialize_grads=True)

    assert said(zeros)["other"] == ([0.0, 0.0], create_graph)
    assert isinstance(said(of_an_edge), RuntimeError)
    assert isinstance(said(lambda m: m.autograd.grad(None, layer(m).weight)), TypeError)


def test_only_inputs() -> None:
    def run(m: Any) -> Any:
        net = layer(m)
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            m.autograd.grad(loss(m, net), net.weight, only_inputs=False)
        return [(one.category, str(one.message), one.filename) for one in heard]

    assert len(said(run)) == 1


def test_compiled() -> None:
    net = layer(nt)

    @nt.compile(fullgraph=True)
    def step(x: Any) -> Any:
        named = nt.autograd.grad(net(x).square().sum(), dict(net.named_parameters()))
        return named["weight"], *nt.autograd.grad(net(x).square().sum(), net.parameters())

    assert [part.tolist() for part in step(nt.ones(1, 2))] == [[[3.0, 3.0]], [[3.0, 3.0]], [3.0]]
