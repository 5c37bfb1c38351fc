"""Graphs as Python objects: narthex._C.Graph, GraphNode, Aot, CompiledGraph."""

import weakref

import narthex as torch
import pytest
from narthex import _C

TEXT = """graph functional {
  %x = placeholder "x" : f32[3, 4] cpu grad
  %w = placeholder "w" : f32[5, 4] cpu grad
  %t = call aten::t(%w)
  %mm = call aten::mm(%x, %t)
  %sum_1 = call aten::sum.dim_IntList(%mm, [0], True, dtype=float32)
  return (%sum_1, %mm)
}
"""
MODES = ["eager", "reduce-overhead", "max-autotune"]


def arguments():
    torch.manual_seed(1)
    return [torch.randn(*shape).requires_grad_() for shape in ((3, 4), (5, 4))]


def eager(x, w):
    product = x @ w.t()
    return product.sum([0], True), product


def captured(function, *args):
    """The graph that a backend gets."""
    seen = []

    def backend(gm, example_inputs):
        seen.append(gm.graph._c)
        return gm.forward

    torch.compile(function, backend=backend)(*args)
    return seen[0]


def test_nodes():
    graph = _C.Graph.parse(TEXT)
    nodes = {node.name: node for node in graph.nodes}
    assert [node.op for node in graph.nodes] == ["placeholder"] * 2 + ["call_function"] * 3 + ["output"]
    assert nodes["mm"].target == "torch.ops.aten.mm.default"
    assert nodes["mm"].args == (nodes["x"], nodes["t"])
    assert list(nodes["t"].users) == [nodes["mm"]]
    assert nodes["sum_1"].args == (nodes["mm"], [0], True)
    assert nodes["sum_1"].kwargs == {"dtype": torch.float32}
    assert nodes["output"].args == ((nodes["sum_1"], nodes["mm"]),)
    assert hash(nodes["x"]) == hash(graph.nodes[0]) and nodes["x"] != nodes["w"]


def test_a_node_keeps_its_graph():
    node = _C.Graph.parse(TEXT).nodes[3]
    assert node.name == "mm" and len(node.args) == 2


def test_source_of_a_captured_node():
    graph = captured(lambda x, w: x @ w.t(), *arguments())
    node = graph.nodes[-2]
    assert node.target == "operator.matmul" and node.line > 0 and "w.t()" in node.code
    assert node.meta["source"] == (node.file, node.line, node.function, node.code)
    assert tuple(node.meta["val"].shape) == (3, 5)
    assert f'File "{node.file}", line {node.line}' in node.meta["stack_trace"]
    graph.verify()


def test_text_and_attributes():
    graph = _C.Graph.parse(TEXT)
    assert _C.Graph.parse(graph.text()).text() == graph.text()
    assert "torch.ops.aten.mm.default(x, t)" in graph.python(shapes=False, lines=False)
    graph.mark = 1
    assert graph.__dict__ == {"mark": 1} and weakref.ref(graph)() is graph


@pytest.mark.parametrize("mode", MODES)
def test_compiled_graph(mode):
    graph, args, same = _C.Graph.parse(TEXT), arguments(), arguments()
    expected = eager(*same)
    for got in (graph(*args), graph.aot(False).compile(mode)(*args)):
        assert [value.tolist() for value in got] == [value.tolist() for value in expected]
    aot = graph.aot(True)
    assert "tangents_1" in aot.joint.python() and "primals_1" in aot.forward.python()
    compiled = aot.compile(mode, "cpu")
    assert "tangents_1" in aot.backward.python() and compiled.n_launches > 0 and compiled.plan()
    compiled(*args)[0].sum().backward()
    expected[0].sum().backward()
    assert [value.grad.tolist() for value in args] == [value.grad.tolist() for value in same]


def test_graphs_without_gradients():
    aot = _C.Graph.parse(TEXT).aot(False)
    assert aot.joint is None and aot.backward is None and len(aot.forward.nodes) == 6


def test_refused():
    graph = _C.Graph.parse(TEXT)
    compiled, (x, w) = graph.aot(False).compile("max-autotune"), arguments()
    with pytest.raises(TypeError, match="1 arguments were given, the graph has 2 inputs"):
        graph(x)
    with pytest.raises(TypeError, match="argument 1 must be Tensor, not int"):
        compiled(x, 1)
    with pytest.raises(RuntimeError, match=r"input 1 is f32\[4, 5\]"):
        compiled(x, w.t())
    with pytest.raises(RuntimeError, match=r"input 0 is f64\[3, 4\]"):
        compiled(x.to(torch.float64), w)
    with pytest.raises(ValueError, match="mode 'fast' is unknown"):
        graph.aot(False).compile("fast")
    with pytest.raises(TypeError, match="expected str, not int"):
        _C.Graph.parse(1)
