"""What makers of backends cut graphs with, beside PyTorch's: matchers, partitioners, splitters, submodules, folders."""

import importlib
import operator
import sys
from collections.abc import Callable
from typing import Any

import narthex as nt
import pytest
import torch

from tests.front.both import LIBS

from .test_passes_infra import module, said


class Names:
    """The functions and classes of both that the tests call."""

    def __init__(self, lib: Any) -> None:
        self.lib, self.trace = lib, lib.fx.symbolic_trace
        self.matcher = module(lib, "utils.matcher_utils").SubgraphMatcher
        self.partitioner, self.fuser = module(lib, "infra.partitioner"), module(lib, "utils.fuser_utils")
        self.support, self.splitter = module(lib, "operator_support"), module(lib, "splitter_base")
        self.common, self.split_utils = module(lib, "utils.common"), module(lib, "split_utils")

    def net(self) -> Any:
        lib = self.lib

        class Net(lib.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.l1, self.l2 = lib.nn.Linear(3, 3), lib.nn.Linear(3, 3)

            def forward(self, x: Any, y: Any) -> Any:
                a = lib.sin(lib.relu(self.l1(x))) + y
                b = self.l2(a)
                return lib.relu(b) * self.l1.weight.sum() * x.size(0), lib.cos(b)

        lib.manual_seed(0)
        traced = self.trace(Net())
        module(lib, "shape_prop").ShapeProp(traced).propagate(*self.inputs())
        return traced

    def inputs(self) -> tuple:
        return (self.lib.ones(2, 3), self.lib.ones(2, 3))

    def takes(self) -> Any:
        kinds = (self.lib.relu, self.lib.sin, operator.add, self.lib.cos, "size")
        return self.support.create_op_support(lambda modules, node: node.target in kinds)

    def same_result(self, cut: Any) -> bool:
        wanted = self.net()(*self.inputs())
        return all(self.lib.equal(a, b) for a, b in zip(cut(*self.inputs()), wanted, strict=True))


def chained(x: Any) -> Any:
    return x.relu().relu().relu().relu()


def summed(x: Any) -> Any:
    return (x + 2) + (x + 3)


def matched(of: Names) -> list:
    lib = of.lib

    def shared(x):
        a = lib.relu(x)
        return a + lib.sin(a) + lib.cos(a)

    def two(x):
        a = lib.relu(x)
        return lib.sin(a), a

    patterns = {
        "chain": (lambda x: x.relu().relu(), chained),
        "number": (lambda x: x + 2, summed),
        "input for a number": (lambda x, w: x + w, summed),
        "read outside": (lambda x: lib.sin(lib.relu(x)), shared),
        "two results": (two, shared),
        "keyword": (lambda x: lib.sum(x, dim=0), lambda x: lib.sum(x, 0)),
        "operator's keyword": (
            lambda x: lib.ops.aten.sum.dim_IntList(x, dim=[0]),
            lambda x: lib.ops.aten.sum.dim_IntList(x, [0], False),
        ),
    }
    found: list = []
    for pattern, graph in patterns.values():
        for options in ({}, {"ignore_literals": True}, {"remove_overlapping_matches": False}, {"match_output": True}):
            matches = of.matcher(of.trace(pattern).graph, **options).match(of.trace(graph).graph)
            found.append([str((list(m.nodes_map.items()), m.placeholder_nodes, m.returning_nodes)) for m in matches])
    empty = said(lambda: of.matcher(lib.fx.Graph()))
    compare, trace = of.common.compare_graphs, of.trace
    alike = [compare(trace(a).graph, trace(b).graph) for a, b in ((summed, summed), (summed, chained))]
    return [*found, empty.split(" / ")[0], *alike]


def replaced(of: Names) -> list:
    rewriter = importlib.import_module(f"{of.lib.__name__}.fx.subgraph_rewriter")
    first, second = of.trace(chained), of.trace(summed)
    matches = of.lib.fx.replace_pattern(first, lambda x: x.relu().relu(), lambda x: x.sin())
    options = {"ignore_literals": True, "match_filters": [lambda match, graph, pattern: len(match.nodes_map) == 2]}
    others = rewriter.replace_pattern_with_filters(second, lambda x: x + 1, lambda x: x.exp(), **options)
    return [str(matches), first.code, len(others), second.code]


def proposed(of: Names) -> list:
    found: list = []
    everything = of.support.create_op_support(lambda modules, node: node.op == "call_function")

    def items(x):
        a, b = of.lib.max(x, 0)
        return a + 1, of.lib.sin(b)

    def apart(x):
        return of.lib.relu(x), of.lib.cos(x)

    for net in (of.net(), of.trace(items), of.trace(apart)):
        for takes in (of.takes(), everything):
            for options in ({}, {"allows_single_node_partition": True}, {"skip_horizontal_fusion": True}):
                proposer = of.partitioner.CapabilityBasedPartitioner(net, takes, **options)
                found.append([[part.size(), str(part)] for part in proposer.propose_partitions()])
    fused = of.partitioner.CapabilityBasedPartitioner(of.net(), of.takes()).partition_and_fuse()
    found += [fused.code, fused.fused_0.code, [name for name, _ in fused.named_children()], of.same_result(fused)]
    part = of.partitioner.Partition(3)
    node = next(iter(fused.graph.nodes))
    part.add_node(node, 4)
    found += [part.id, str(part), part.size()]
    part.remove_node(node)
    return [*found, part.size()]


def fused(of: Names) -> list:
    gm, fuser = of.net(), of.fuser
    nodes = {node.name: node for node in gm.graph.nodes}
    own = [nodes["sin"], nodes["relu"], nodes["add"]]
    valid = [fuser.validate_partition(part) for part in (own, [nodes["relu"], nodes["add"]])]
    order = fuser.topo_sort(own)
    part, inputs, results = fuser.fuse_as_graphmodule(gm, order, "part", always_return_tuple=True)
    bad = said(lambda: fuser.fuse_as_graphmodule(gm, [nodes["relu"], nodes["add"]], "bad")).split(" / ")[0]
    fuser.insert_subgm(gm, part, inputs, results)
    fuser.erase_nodes(gm, order)
    gm.graph.lint()
    gm.recompile()
    lifted, names = of.common.lift_subgraph_as_module(gm, gm.graph, comp_name="c", class_name="Q")
    lifted_names = sorted(names.items())
    return [valid, str(order), part.code, str((inputs, results)), bad, gm.code, of.same_result(gm), lifted_names]


def split(of: Names) -> list:
    found: list = []
    base = of.splitter
    for options in ({}, {"min_acc_module_size": 3}, {"skip_fusion": True}):
        made = base._SplitterBase(of.net(), of.inputs(), of.takes(), base._SplitterSettingBase(**options))
        cut = made()
        places = sorted(made.get_node_submodule_map().items())
        found += [cut.code, {name: part.code for name, part in cut.named_children()}, made.tags, places]
        found.append(of.same_result(cut))
    made = base._SplitterBase(of.net(), of.inputs(), of.takes(), base._SplitterSettingBase(), return_tuple=True)
    result = made.generate_split_results()
    shapes = {name: [tuple(getattr(x, "shape", ())) for x in given] for name, given in result.submodule_inputs.items()}
    few = base._SplitterSettingBase(max_acc_splits=1)
    limited = base._SplitterBase(of.net(), of.inputs(), of.takes(), few)
    refused = said(limited.generate_split_results)
    found += [result.split_module.code, shapes, result.non_acc_submodule_prefix, refused]
    kinds = [sorted(map(str, base.FxNetAccNodesFinder(of.net(), of.takes(), flag)())) for flag in (False, True)]
    return [*found, kinds]


def tagged(of: Names) -> list:
    found: list = []
    for tags in ("aabbcccccc", "aabacccccc", "abcccccccc"):
        gm = of.net()
        for node, tag in zip([n for n in gm.graph.nodes if n.op.startswith("call")], tags, strict=False):
            node.tag = tag
        cut = said(lambda: of.split_utils.split_by_tags(gm, list("abc"), return_fqn_mapping=True))  # noqa: B023
        if isinstance(cut, str):
            found.append(cut)
            continue
        parts = {name: part.code for name, part in cut[0].named_children()}
        found += [cut[0].code, parts, cut[1], of.same_result(cut[0]), sorted(dict(cut[0].named_parameters()))]
    return found


def measured(of: Names) -> list:
    sizes, params = module(of.lib, "graph_manipulation"), module(of.lib, "param_fetch")
    gm = of.trace(of.lib.nn.Sequential(of.lib.nn.Linear(3, 4), of.lib.nn.ReLU()))
    sizes.get_size_of_all_nodes(gm, of.inputs()[:1])
    sizes.replace_target_nodes_with(gm, "call_module", "1", "call_function", of.lib.tanh)
    gm.recompile()
    found = [gm.code, said(lambda: sizes.get_tensor_meta(next(reversed(of.net().graph.nodes)).prev.prev.prev))]
    sizes.get_size_of_all_nodes(gm, of.inputs()[:1])
    found += [tuple(node.size_bytes) for node in gm.graph.nodes if hasattr(node, "size_bytes")]
    return found + sorted(params.extract_attrs_for_lowering(of.lib.nn.Linear(2, 2)))


def without_elements(of: Names) -> list:
    fakes = importlib.import_module(f"{of.lib.__name__}._subclasses.fake_tensor")
    gm = of.trace(lambda x: (x @ x.t()).sum(0).chunk(2))
    module(of.lib, "fake_tensor_prop").FakeTensorProp(gm).propagate(of.lib.ones(4, 3))
    found = []
    for node in gm.graph.nodes:
        value = node.meta["val"]
        values = value if isinstance(value, (list, tuple)) else [value]
        found.append([(tuple(x.shape), isinstance(x, fakes.FakeTensor)) for x in values])
    fresh = of.trace(lambda x: x @ x.t())
    module(of.lib, "shape_prop").ShapeProp(fresh, fakes.FakeTensorMode()).propagate(of.lib.ones(4, 3))
    return [*found, [tuple(node.meta["tensor_meta"].shape) for node in fresh.graph.nodes]]


def managed(of: Names) -> list:
    passes, log = module(of.lib, "pass_manager"), []

    def one(x):
        log.append("one")
        return x + 1

    def two(x):
        log.append("two")
        return x * 2

    before = passes.this_before_that_pass_constraint
    manager = passes.PassManager([one, two], [before(one, two)])
    found = [manager(3), passes.PassManager.build_from_passlist([two, one])(3)]
    manager.replace_pass(two, one)
    found += [manager(3), passes.loop_pass(one, n_iter=3)(0), passes.loop_pass(two, predicate=lambda x: x < 9)(1)]
    manager.remove_pass(["one"])
    wrong = passes.PassManager([two, one], [passes.these_before_those_pass_constraint(one, two)])
    found += [manager(3), said(lambda: wrong(1)).split(".")[0], passes.log_hook(one)(1)]
    return [*found, passes.inplace_wrapper(lambda values: values.append(1))([]), log]


@pytest.mark.parametrize(
    "asked", (matched, replaced, proposed, fused, split, tagged, measured, without_elements, managed)
)
def test_beside_pytorch(asked: Callable[[Names], list]) -> None:
    found, wanted = asked(Names(nt)), asked(Names(torch))
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours == theirs


@pytest.mark.parametrize("lib", LIBS)
def test_sources(lib: Any) -> None:
    sources = module(lib, "utils.source_matcher_utils")

    class Net(lib.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.l1, self.l2 = lib.nn.Linear(3, 3), lib.nn.Linear(3, 3)

        def forward(self, x):
            return self.l2(self.l1(x)).relu()

    graph = lib.export.export(Net(), (lib.ones(2, 3),)).module().graph
    first, second = sources.get_source_partitions(graph, [lib.nn.Linear, lib.nn.ReLU])[lib.nn.Linear]
    assert [str(first.output_nodes), str(second.input_nodes)] == ["[linear]"] * 2 and first.source is lib.nn.Linear
    assert sources.check_subgraphs_connected(first, second) and not sources.check_subgraphs_connected(second, first)
    none = sources.get_source_partitions(graph, [lib.nn.Linear], lambda node: node.name == "linear_1")
    assert [part.nodes for part in none[lib.nn.Linear]] == [second.nodes]

    def backend(gm, inputs):
        asked = [lib.nn.functional.linear, lib.nn.Linear, lib.relu]
        found.update(sources.get_source_partitions(gm.graph, asked))
        return gm.forward

    found: dict = {}
    layer = lib.nn.Linear(3, 3)
    lib.compile(lambda x: lib.nn.functional.linear(lib.relu(layer(x)), layer.weight), backend=backend)(lib.ones(2, 3))
    assert {key.__name__: len(parts) for key, parts in found.items()} == {"Linear": 1, "relu": 1, "linear": 1}


def test_named_nodes_of_a_pattern() -> None:
    names = module(nt, "utils.matcher_with_name_node_map_utils")

    def pattern(x):
        y = nt.relu(x)
        return nt.sin(y), {"y": y, "x": x}

    matcher = names.SubgraphMatcherWithNameNodeMap(nt.fx.symbolic_trace(pattern))
    (match,) = matcher.match(nt.fx.symbolic_trace(lambda a: nt.sin(nt.relu(a + 1)) * 2).graph)
    assert str(match.name_node_map) == "{'y': relu, 'x': add}"


def test_a_folder_is_a_package_for_both(tmp_path, monkeypatch) -> None:
    class Net(nt.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.linear = nt.nn.BatchNorm1d(3), nt.nn.Linear(3, 3)
            self.register_buffer("kept", nt.ones(3))
            self.register_buffer("dropped", nt.full((3,), 2.0), persistent=False)
            self.p = nt.nn.Parameter(nt.ones(3))

        def forward(self, x):
            return nt.nn.functional.gelu(self.linear(self.norm(x)) * self.kept + self.p - self.dropped)

    traced, x = nt.fx.symbolic_trace(Net()), [[1.0, 2.0, 3.0], [0.5, -1.0, 4.0]]
    traced.to_folder(tmp_path / "as_a_package", "Net")
    monkeypatch.syspath_prepend(tmp_path)
    made = importlib.import_module("as_a_package").Net()  # which imports torch: PyTorch, here
    sys.modules.pop("as_a_package.module"), sys.modules.pop("as_a_package")
    assert torch.allclose(made(torch.tensor(x)), torch.tensor(traced(nt.tensor(x)).tolist()))
