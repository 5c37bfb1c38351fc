"""Captured graphs as backends see them: calls as the program spelled them, beside PyTorch's graphs."""

from __future__ import annotations

from typing import Any

import narthex as nt
import pytest
import torch as pt

SPELLED = """
1.7 * x
1.7 + x
1.7 - x
1.7 / x
2**x
7 // x
7 % x
1 & i
3 | i
3 ^ i
2 << i
torch.add(2, x)
x[0]
x[:, None]
x[..., 1:]
x[i[0]]
x.shape[0] * x
F.relu(x)
F.relu(x, inplace=True)
F.silu(x)
F.softmax(x, -1)
F.layer_norm(x, (3,))
F.dropout(x, 0.5)
F.dropout(x, 0.5, training=False)
F.relu6(x)
F.embedding(i, y)
F.cross_entropy(x, i[:, 0])
F.mse_loss(x, x, reduction="sum")
F.normalize(x)
F.max_pool2d(x[None], 2)
F.max_pool2d(x[None], 2, return_indices=True)
F.interpolate(x[None, None], scale_factor=2)
F.batch_norm(x, None, None, training=True)
F.instance_norm(x[None])
F.gumbel_softmax(x)
F.unfold(x[None, None], 2)
F.linear(x, y)
F.gelu(x)
F.softmax(F.normalize(2 - x), 1).norm()
torch.einsum("ij,jk->ik", x, y)
torch.norm(x)
x.norm()
torch.cdist(x, x)
torch.ones(2, 3) + x
x.view(3, 2)
x.view((3, 2)).transpose(dim0=0, dim1=1)
torch.sum(x, dim=1, keepdim=True)
x.sum(-1)
torch.cat([x, x], dim=-1)
torch.where(x > 1, x, 0.0)
x.to(torch.float64).clamp(min=2)
x.split(1)[0]
torch.topk(x, 2, dim=1).values
x.masked_fill(i == 1, 0.5)
x.addmm(x, y, alpha=2) if 0 else torch.addmm(x, x, y, alpha=2)
""".strip().splitlines()


def graph_of(m: Any, source: str) -> list:
    scope = {"torch": m, "F": m.nn.functional}
    exec(f"def f(x, i, y):\n    return {source}", scope)
    seen: list = []

    def backend(gm: Any, inputs: list) -> Any:
        for node in gm.graph.nodes:
            target = node.target
            if callable(target):
                target = next((f"F.{n}" for n, v in vars(m.nn.functional).items() if v is target), target.__name__)
            if node.op not in ("placeholder", "output"):
                seen.append((node.op, node.name, target, str(node.args), str(dict(node.kwargs))))
                shapes = node.meta["example_value"]
                seen.append([tuple(v.shape) for v in (shapes if isinstance(shapes, tuple) else (shapes,))])
        gm.recompile()
        return gm.forward

    m._dynamo.reset()
    m.manual_seed(0)
    x, i, y = m.arange(6.0).reshape(2, 3) + 1, m.tensor([[0, 1, 1], [1, 0, 1]]), m.eye(3) + 0.5
    given = x.clone(), i, y
    result = m.compile(scope["f"], backend=backend, fullgraph=True)(*given)
    m.manual_seed(0)
    expected = scope["f"](x, i, y)
    for got, want in zip(*((v if isinstance(v, tuple) else (v,)) for v in (result, expected)), strict=True):
        assert m.equal(got, want)
    assert m.equal(given[0], x)  # written by both, or by neither
    return seen


@pytest.mark.parametrize("source", SPELLED)
def test_calls_are_spelled_as_pytorchs(source: str) -> None:
    assert graph_of(nt, source) == graph_of(pt, source)


def attention(m: Any) -> Any:
    class Block(m.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv, self.out, self.norm = m.nn.Linear(4, 12), m.nn.Linear(4, 4), m.nn.LayerNorm(4)
            self.mlp = m.nn.Sequential(m.nn.Linear(4, 8), m.nn.GELU(), m.nn.Linear(8, 4))

        def attend(self, x: Any) -> Any:
            q, k, v = self.qkv(x).chunk(3, dim=-1)
            att = (q @ k.transpose(-2, -1)) / 2
            att = att.softmax(-1)
            return self.out(att @ v)

        def forward(self, x: Any) -> Any:
            x = x + self.attend(self.norm(x))
            for _ in range(2):
                x = x + self.mlp(x)
            return x

    return Block()


def variables(m: Any, x: Any) -> Any:
    view = x.view(-1)
    sum = view.sum() * 2  # noqa: A001 - a name of Python's
    first, second = x.split(2, 1)
    first += 1
    cell = first + second

    def inner(t: Any) -> Any:
        h = m.relu(t)
        return h * cell

    if (n := inner(x[:, :2])).shape[0] > 1:
        x = n
    return [a * 2 for a in x.unbind(0)], sum


@pytest.mark.parametrize("make", [attention, lambda m: lambda x: variables(m, x)], ids=["attention", "variables"])
def test_nodes_have_the_names_of_variables_as_pytorchs(make: Any) -> None:
    names: dict = {nt: [], pt: []}
    for m, seen in names.items():

        def backend(gm: Any, inputs: list, seen: list = seen) -> Any:
            seen += [(node.op, node.name) for node in gm.graph.nodes if node.op != "placeholder"]
            return gm

        m._dynamo.reset()
        function, x = make(m), m.arange(16.0).view(4, 4)
        results = m.compile(function, backend=backend)(x.clone()), function(x.clone())
        for got, want in zip(*(v[0] if isinstance(v, tuple) else v for v in results)):
            assert m.allclose(got, want)
    assert names[nt] == names[pt]


def two_blocks(m: Any) -> Any:
    class Net(m.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks, self.last = m.nn.ModuleList([attention(m), attention(m)]), m.nn.Sequential(m.nn.Dropout(0.0))

        def forward(self, x: Any) -> Any:
            for block in self.blocks:
                x = block(x)
            return m.relu(self.last(x)).sum()

    return Net()


def test_nodes_tell_the_calls_of_modules_as_pytorchs() -> None:
    told: dict = {nt: [], pt: []}
    for m, seen in told.items():

        def backend(gm: Any, inputs: list, seen: list = seen) -> Any:
            for node in gm.graph.nodes:
                if node.op in ("call_function", "call_method"):
                    stack = [(path, kind.__name__) for path, kind in node.meta.get("nn_module_stack", {}).values()]
                    called = [(name, getattr(of, "__name__", of)) for name, of in node.meta["source_fn_stack"]]
                    seen.append((node.name, stack, called))
            return gm

        m._dynamo.reset()
        m.compile(two_blocks(m), backend=backend)(m.ones(2, 4))
    assert told[nt] == told[pt] and any(len(stack) > 2 for _, stack, _ in told[nt])
