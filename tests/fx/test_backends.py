"""Backends as people write them, each run by both: one that puts modules in the place of calls, one that runs a graph
node by node, one that gives parts of a graph away, one that traces it again with decompositions."""

from __future__ import annotations

import operator
from collections.abc import Callable
from importlib import import_module
from typing import Any

import narthex as nt
import pytest
import torch as pt


def of(m: Any, path: str) -> Any:
    return import_module(f"{m.__name__}.{path}")


def network(m: Any) -> Any:
    nn, F = m.nn, m.nn.functional  # noqa: N806

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.norm, self.drop = nn.Embedding(11, 8), nn.LayerNorm(8), nn.Dropout(0.0)
            self.up, self.down, self.head = nn.Linear(8, 16), nn.Linear(16, 8), nn.Linear(8, 11)
            self.scale = nn.Parameter(m.ones(8))
            self.register_buffer("shift", m.zeros(11))

        def forward(self, i: Any, mask: Any) -> dict:
            x = self.embedding(i)
            x = x + self.drop(self.down(F.gelu(self.up(self.norm(x))))) * self.scale * 0.5
            q, k = x.masked_fill(mask[..., None], 0.0).chunk(2, -1)
            w = F.softmax(q @ k.transpose(-1, -2) / 2.0, -1)
            y = m.cat([w @ q, k], dim=-1)
            return {"logits": self.head(y) + self.shift, "norm": y.norm(), "rest": 1 - w[:, 0]}

    m.manual_seed(0)
    return Network()


def arguments(m: Any) -> tuple:
    return m.tensor([[1, 2, 3], [4, 5, 6]]), m.tensor([[False, True, False], [False, False, True]])


def run(m: Any, make: Callable) -> list:
    """What the backend tells of itself; results and gradients are those of the module uncompiled."""
    m._dynamo.reset()
    told: list = []
    module, plain = network(m), network(m)
    compiled, given = m.compile(module, backend=make(m, told), fullgraph=True), arguments(m)
    for each in (compiled, plain):
        for _ in range(2):
            result = each(*given)
        (result["logits"].sum() + result["norm"]).backward()
    for key, value in compiled(*given).items():
        m.testing.assert_close(value, plain(*given)[key])
    for mine, other in zip(module.parameters(), plain.parameters(), strict=True):
        m.testing.assert_close(mine.grad, other.grad)
    return told


def puts_modules(m: Any, told: list) -> Callable:
    class Counted(m.nn.Module):
        calls = 0

        def forward(self, x: Any, weight: Any, bias: Any = None) -> Any:
            type(self).calls += 1
            return m.nn.functional.linear(x, weight, bias)

    def backend(gm: Any, inputs: list) -> Any:
        linear, dropout, n = m.nn.functional.linear, m.nn.functional.dropout, 0
        for node in list(gm.graph.nodes):
            if node.target is linear:
                assert gm.add_submodule(f"counted.n{n}", Counted())
                with gm.graph.inserting_before(node):
                    new = gm.graph.call_module(f"counted.n{n}", node.args, node.kwargs)
                n += 1
                node.replace_all_uses_with(new, propagate_meta=True)
                gm.graph.erase_node(node)
            elif node.target is dropout:
                node.replace_all_uses_with(node.args[0])
                gm.graph.erase_node(node)
        gm.graph.lint()
        gm.recompile()
        told.append([(node.op, node.target) for node in gm.graph.nodes if node.op in ("call_module", "call_method")])
        told.append([name for name, _ in gm.named_modules()])

        def called(*args: Any) -> Any:
            result = gm(*args)
            told.append(Counted.calls)
            return result

        return called

    return backend


def times_nodes(m: Any, told: list) -> Callable:
    class Watched(of(m, "fx").Interpreter):
        def run_node(self, node: Any) -> Any:
            result = super().run_node(node)
            told.append((node.op, str(node.target).rpartition(".")[2] if node.op == "call_method" else node.op))
            if isinstance(result, m.Tensor):
                assert result.shape == node.meta["example_value"].shape
                told.append((tuple(result.shape), str(result.dtype)))
            return result

        def call_function(self, target: Any, args: tuple, kwargs: dict) -> Any:
            told.append((target.__name__, [x.shape for x in args if isinstance(x, m.Tensor)], sorted(kwargs)))
            return super().call_function(target, args, kwargs)

    return lambda gm, inputs: Watched(gm).run


def gives_parts_away(m: Any, told: list) -> Callable:
    infra, support = of(m, "fx.passes.infra.partitioner"), of(m, "fx.passes.operator_support")
    F = m.nn.functional  # noqa: N806

    class Support(support.OperatorSupportBase):
        def is_node_supported(self, submodules: Any, node: Any) -> bool:
            return node.target in (F.linear, F.gelu, F.layer_norm, F.embedding, operator.add, operator.mul)

    class Elsewhere(m.nn.Module):
        def __init__(self, name: str, part: Any) -> None:
            super().__init__()
            self.name, self.part, self.n = name, part, 0

        def forward(self, *args: Any) -> Any:
            self.n += 1
            told.append((self.name, "here" if self.n == 2 else "elsewhere"))
            return self.part.forward(*args) if self.n == 2 else self.part(*args)

    def backend(gm: Any, inputs: list) -> Any:
        made = infra.CapabilityBasedPartitioner(gm, Support(), allows_single_node_partition=False)
        fused = made.partition_and_fuse()
        for name, part in list(fused.named_children()):
            counted = [node.target.__name__ for node in part.graph.nodes if node.op == "call_function"]
            told.append((name, counted))
            setattr(fused, name, Elsewhere(name, part))
        fused.recompile()
        return fused

    return backend


def halves(m: Any, told: list) -> Callable:
    def backend(gm: Any, inputs: list) -> Any:
        seen: list = []

        def part(node: Any) -> int:
            seen.append(node)
            return int(len(seen) > 9)

        made = of(m, "fx.passes.split_module").split_module(gm, None, part)
        told.append([(name, len(of_.graph.nodes)) for name, of_ in made.named_children()])
        told.append([node.name for node in made.graph.nodes if node.op == "placeholder"])
        return made

    return backend


@pytest.mark.parametrize("make", [puts_modules, times_nodes, gives_parts_away, halves])
def test_a_backend_of_that_kind(make: Callable) -> None:
    assert run(nt, make) == run(pt, make)


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_one_that_traces_again(mode: str) -> None:
    for m in (nt, pt):
        aten, used = m.ops.aten, set()

        def backend(gm: Any, inputs: list, m: Any = m, aten: Any = aten, used: set = used) -> Any:
            names = (aten.native_layer_norm, aten.gelu, aten.addmm, aten._softmax, aten.rsub, aten.t)
            table = of(m, "_decomp").get_decompositions(names)
            make = of(m, "fx.experimental.proxy_tensor").make_fx
            made = make(gm, decomposition_table=table, tracing_mode=mode)(*(m.zeros_like(x) for x in inputs))
            used.update(str(node.target) for node in made.graph.nodes if node.op == "call_function")
            return made.forward

        m._dynamo.reset()
        module = network(m)
        with m.no_grad():
            result = m.compile(module, backend=backend, fullgraph=True)(*arguments(m))
            for key, value in module(*arguments(m)).items():
                m.testing.assert_close(result[key], value)
        assert {"aten.erf.default", "aten.rsqrt.default", "aten.exp.default", "aten.mm.default"} <= used
        assert not used & {"aten.gelu.default", "aten.native_layer_norm.default", "aten._softmax.default"}


def test_one_that_compiles_what_it_gets_with_another() -> None:
    counter = nt._dynamo.testing.CompileCounter()
    compiled = nt.compile(
        lambda x: nt.relu(1 - x)[0], backend=lambda gm, inputs: nt.compile(gm, backend=counter, fullgraph=True)
    )
    assert compiled(nt.zeros(2, 3)).tolist() == [1.0, 1.0, 1.0]
    assert counter.frame_count == 1 and counter.op_count == 3


def test_one_that_reads_weights() -> None:
    """Integers for weights, made of what the backend is given."""

    def quantised(m: Any) -> Callable:
        def backend(gm: Any, inputs: list) -> Any:
            given = dict(zip((n for n in gm.graph.nodes if n.op == "placeholder"), inputs))
            for node in [n for n in gm.graph.nodes if n.target is m.nn.functional.linear]:
                weight = given[node.args[1]].detach()
                scale = weight.abs().max().item() / 127
                gm.register_buffer(f"q_{node.name}", (weight / scale).round().to(m.int8))
                with gm.graph.inserting_before(node):
                    whole = gm.graph.call_method("float", (gm.graph.get_attr(f"q_{node.name}"),))
                    node.update_arg(1, gm.graph.call_function(operator.mul, (whole, scale)))
            gm.recompile()
            return gm

        return backend

    results = []
    for m in (nt, pt):
        m._dynamo.reset()
        m.manual_seed(0)
        model = m.nn.Sequential(m.nn.Linear(4, 8), m.nn.ReLU(), m.nn.Linear(8, 2))
        compiled, x = m.compile(model, backend=quantised(m)), m.arange(8.0).view(2, 4)
        with m.no_grad():
            assert m.allclose(compiled(x), model(x), atol=0.2) and not m.equal(compiled(x), model(x))
            results.append(compiled(x).tolist())
    for ours, theirs in zip(*results):
        assert ours == pytest.approx(theirs, rel=1e-4)


@pytest.mark.parametrize("m", [pt, nt], ids=["torch", "narthex"])
def test_nodes_of_one_shape_have_values_of_their_own(m: Any) -> None:
    found: list = []

    def backend(gm: Any, inputs: list) -> Any:
        found.extend(node.meta["example_value"] for node in gm.graph.nodes if node.op == "call_function")
        return gm.forward

    m.compile(lambda x: (x + 1) * 2 - 3, backend=backend)(m.ones(2, 3))
    assert [tuple(value.shape) for value in found] == [(2, 3)] * 3
    found[0].requires_grad_()
    assert [value.requires_grad for value in found] == [True, False, False]
