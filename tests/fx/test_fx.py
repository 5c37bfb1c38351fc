"""torch.fx beside PyTorch's: the same programs traced by both have the same graphs, source and results, and edits
run."""

import copy
import importlib
import io
import math
import operator
import pickle
import re
from collections.abc import Callable
from typing import Any

import narthex as nt
import pytest
import torch

BOTH = (torch, nt)


def layers(m: Any) -> Any:
    class Layers(m.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.bias = m.nn.Linear(3, 4), m.nn.Parameter(m.ones(4))
            self.chain = m.nn.Sequential(m.nn.ReLU(), m.nn.Linear(4, 2))
            self.register_buffer("scale", m.full((4,), 0.5))

        def forward(self, x: Any, factor: Any = 2) -> Any:
            a = self.first(x) + self.bias * factor
            b = m.relu(a).sum(dim=-1, keepdim=True)
            c = -m.nn.functional.gelu(b, approximate="tanh")
            d = c[0:2, ..., None]
            e = a.view(x.shape[0], -1) ** 2 * self.scale
            return {"d": d, "rest": [e @ e.t(), (self.chain(a), m.cat([a, a], dim=0))]}, a == b

    return Layers()


def written(m: Any) -> Any:
    def f(x: Any, y: Any) -> Any:
        x = x + 1
        x += y
        z, w = m.chunk(x, 2)
        return m.max(z, 0)[0] - abs(w), 2 - x, 1 / y, y // 2, ~(x > y), x.to(m.float64), m.ops.aten.add.Tensor(x, y)

    return f


def constants(m: Any) -> Any:
    def f(x: Any) -> Any:
        y = m.clamp(x, -math.inf, 3.0).to(m.float64)
        return m.where(y > 0, y, float("nan")), m.zeros_like(x, dtype=m.int64), x.reshape((1, -1)).permute(1, 0)

    return f


def starred(m: Any) -> Any:
    def f(x: Any, *rest: Any, flag: Any = None, **named: Any) -> Any:
        return x * rest[0] + named["k"]

    return f


def names(m: Any) -> Any:
    def f(input: Any, list: Any) -> Any:
        a = m.sum(input) + m.sum(list)
        return m.max(a), m.ops.aten.add.Tensor(a, 1), a.float().sum(), m.softmax(input, dim=-1)

    return f


PROGRAMS = {"layers": layers, "written": written, "constants": constants, "starred": starred, "names": names}


def plain(text: str) -> str:
    """Text without what differs by package."""
    return re.sub(r"narthex", "torch", text)


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_graph_and_source_are_pytorchs(program: Callable[[Any], Any]) -> None:
    theirs, ours = (m.fx.symbolic_trace(program(m)) for m in BOTH)
    assert plain(str(ours.graph)) == str(theirs.graph)
    assert plain(ours.code) == theirs.code
    ours.graph.lint()


def flat(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [x for item in value.values() for x in flat(item)]
    if isinstance(value, (list, tuple)):
        return [x for item in value for x in flat(item)]
    return [value]


def same(got: Any, want: Any) -> None:
    got, want = flat(got), flat(want)
    assert len(got) == len(want)
    for a, b in zip(got, want):
        assert torch.equal(torch.from_dlpack(a.detach()), torch.from_dlpack(b.detach()))


@pytest.mark.parametrize("program", [layers, written, names], ids=["layers", "written", "names"])
def test_traced_programs_give_what_the_programs_give(program: Callable[[Any], Any]) -> None:
    function = program(nt)
    inputs = [nt.randn(4, 3)] if program is layers else [nt.rand(4, 4) + 1, nt.rand(4, 4) + 1]
    want, traced = function(*inputs), nt.fx.symbolic_trace(function)
    same(traced(*inputs), want)
    same(nt.fx.Interpreter(traced).run(*inputs), want)
    same(nt.fx.Transformer(traced).transform()(*inputs), want)
    same(copy.deepcopy(traced)(*inputs), want)
    same(nt.compile(traced)(*inputs), want)
    if program is layers:
        file = io.BytesIO(pickle.dumps(traced))
        same(pickle.load(file)(*inputs), want)


FAILURES: dict[str, Callable[[Any, Any], Any]] = {
    "loop": lambda m, x: [item for item in x],
    "branch": lambda m, x: 1 if x > 0 else 2,
    "len": lambda m, x: len(x),
    "unpacked": lambda m, x: {**x},
}


@pytest.mark.parametrize("program", FAILURES.values(), ids=FAILURES)
def test_what_cannot_be_traced(program: Callable[[Any, Any], Any]) -> None:
    texts = []
    for m in BOTH:
        with pytest.raises(Exception) as caught:
            m.fx.symbolic_trace(lambda x, m=m: program(m, x))
        texts.append((type(caught.value).__name__, str(caught.value)))
    assert texts[0] == texts[1]


def test_concrete_arguments_are_constants() -> None:
    def choose(x: Any, deep: bool) -> Any:
        return x.relu() if deep else x.neg()

    for deep in (True, False):
        theirs, ours = (m.fx.symbolic_trace(choose, concrete_args={"deep": deep}) for m in BOTH)
        names = [[node.name for node in traced.graph.nodes] for traced in (theirs, ours)]
        assert ("relu" in names[0]) == ("relu" in names[1]) == deep


@nt.fx.wrap
def looked_into_by_nobody(x: Any) -> Any:
    return x + 1 if x.sum() > 0 else x


def test_wrapped_functions_are_one_node() -> None:
    traced = nt.fx.symbolic_trace(lambda x: looked_into_by_nobody(x) * math.sqrt(x))
    targets = [node.target for node in traced.graph.nodes if node.op == "call_function"]
    assert targets == [looked_into_by_nobody, math.sqrt, operator.mul]
    assert traced(nt.tensor(4.0)) == 10


# ---- edits ---------------------------------------------------------------------------------------------------------
def test_targets_are_objects_and_edits_run() -> None:
    traced = nt.fx.symbolic_trace(lambda x: nt.relu(x) + 1)
    for node in traced.graph.nodes:
        if node.target is nt.relu:
            with traced.graph.inserting_after(node):
                new = traced.graph.call_function(nt.neg, (node.args[0],))
            node.replace_all_uses_with(new)
            traced.graph.erase_node(node)
    assert traced(nt.ones(2))[0] == 2  # before recompile
    traced.recompile()
    assert traced(nt.ones(2))[0] == 0
    traced.graph.lint()


def test_built_by_hand() -> None:
    texts = []
    for m in BOTH:
        graph = m.fx.Graph()
        x = graph.placeholder("x", type_expr=m.Tensor)
        y = graph.create_node("call_function", m.add, (x, x), name="twice")
        dead = graph.call_method("relu", (y,))
        with graph.inserting_before(y):
            z = graph.call_function(m.mul, (x, 3))
        y.update_arg(1, z)
        with pytest.raises(RuntimeError) as caught:
            graph.erase_node(x)
        out = graph.output((y,))
        assert graph.eliminate_dead_code() and dead not in list(graph.nodes)
        assert list(y.users) == [out] and y.all_input_nodes == [x, z] and z.next is y and y.prev is z and x < y
        assert m.fx.GraphModule({}, graph)(m.ones(2))[0][0] == 4
        texts.append(plain(str(caught.value) + str(graph) + graph.python_code("self").src))
        other = m.fx.Graph()
        assert isinstance(other.graph_copy(graph, {}), tuple) and len(other.nodes) == 3
    assert texts[0] == texts[1]


def test_lint_finds_what_stands_too_late() -> None:
    texts = []
    for m in BOTH:
        traced = m.fx.symbolic_trace(chained(m))
        relu, neg = (node for node in traced.graph.nodes if node.name in ("relu", "neg"))
        neg.append(relu)
        with pytest.raises(RuntimeError) as caught:
            traced.graph.lint()
        texts.append(plain(str(caught.value)))
    assert texts[0] == texts[1]


def test_a_backend_edits_what_was_captured() -> None:
    def backend(gm: Any, inputs: Any) -> Any:
        for node in gm.graph.nodes:
            if node.op == "call_function" and node.target is operator.mul:
                node.target = operator.add
            node.meta["seen"] = True
        gm.graph.lint()
        gm.recompile()
        assert all(node.meta["seen"] for node in gm.graph.nodes)
        return gm.forward

    function = nt.compile(lambda x, y: nt.relu(x * y) - 1, backend=backend)
    assert function(nt.ones(2) * 3, nt.ones(2) * 4)[0] == 6


def test_what_was_edited_goes_to_the_engine() -> None:
    def backend(gm: Any, inputs: Any) -> Any:
        for node in gm.graph.nodes:
            if node.target is nt.relu:
                node.target = nt.neg
        gm.recompile()
        return nt._dynamo.lookup_backend("inductor")(gm, inputs)

    function = nt.compile(lambda x: nt.relu(x) * 2, backend=backend)
    assert [function(nt.ones(n)).sum().item() for n in (2, 3, 2)] == [-4, -6, -4]


def test_in_place_functions_of_a_captured_graph() -> None:
    def backend(gm: Any, inputs: Any) -> Any:
        gm.recompile()
        return gm

    x = nt.randn(4)
    f = lambda x: nt.nn.functional.silu(x.clone(), inplace=True) + nt.nn.functional.hardtanh(x * 2, inplace=True)  # noqa: E731
    same(nt.compile(f, backend=backend)(x), f(x))


def test_a_captured_graph_as_it_is() -> None:
    seen = []

    def backend(gm: Any, inputs: Any) -> Any:
        seen.append((gm(x), nt.fx.Interpreter(gm).run(x)))
        assert nt.equal(inputs[0], x)  # the call's own
        gm.recompile()
        seen.append((gm(x), seen[0][0]))
        return gm

    x = nt.randn(3, 3)
    f = lambda x: (nt.cat([x, x.t()]).sum(0), x[1:] @ x, nt.split(x, 2)[1])  # noqa: E731
    same(nt.compile(f, backend=backend)(x), f(x))
    for one, other in seen:
        same(one, other)


def chained(m: Any) -> Any:
    return lambda x: m.relu(x).neg()


def sums(m: Any) -> Any:
    return lambda x, w: m.cat([m.relu(x + w), m.relu(w + x) + m.relu(x)])


def patterns(m: Any) -> Any:
    return (lambda a, b: m.relu(a + b)), (lambda a, b: m.sigmoid(a) * b)


# ---- passes --------------------------------------------------------------------------------------------------------
def test_replace_pattern() -> None:
    counts = []
    for m in BOTH:
        traced = m.fx.symbolic_trace(sums(m))
        found = m.fx.replace_pattern(traced, *patterns(m))
        traced.graph.lint()
        counts.append((len(found), [node.name for node in traced.graph.nodes]))
        x = m.ones(2)
        want = m.cat([m.sigmoid(x) * x, m.sigmoid(x) * x + m.relu(x)])
        assert m.equal(traced(x, x), want)
    assert counts[0] == counts[1]


def test_shapes_are_noted() -> None:
    metas = []
    for m in BOTH:
        from importlib import import_module

        shape_prop = import_module(f"{m.__name__}.fx.passes.shape_prop")
        traced = m.fx.symbolic_trace(layers(m))
        shape_prop.ShapeProp(traced).propagate(m.ones(4, 3))
        found = {
            n.name: n.meta["tensor_meta"] for n in traced.graph.nodes if hasattr(n.meta.get("tensor_meta"), "shape")
        }
        metas.append(
            {name: (tuple(t.shape), str(t.dtype), tuple(t.stride), t.requires_grad) for name, t in found.items()}
        )
    assert metas[0] == metas[1] and len(metas[0]) > 10


def test_split_module() -> None:
    texts = []
    for m in BOTH:
        from importlib import import_module

        split = import_module(f"{m.__name__}.fx.passes.split_module").split_module
        model = layers(m)
        traced = m.fx.symbolic_trace(model)
        at = {node: int(i > 8) for i, node in enumerate(traced.graph.nodes)}
        parts = split(traced, model, lambda node, at=at: at[node])
        x = m.ones(4, 3)
        same(parts(x), model(x))
        texts.append([name for name, _ in parts.named_children()])
    assert texts[0] == texts[1] == ["submod_0", "submod_1"]


def test_fused_by_editing_modules() -> None:
    model = nt.nn.Sequential(nt.nn.Conv2d(3, 4, 3), nt.nn.BatchNorm2d(4), nt.nn.ReLU()).eval()
    traced = nt.fx.symbolic_trace(model)
    for node in traced.graph.nodes:
        if node.op == "call_module" and isinstance(traced.get_submodule(node.target), nt.nn.BatchNorm2d):
            (conv,) = node.all_input_nodes
            fused = nt.nn.utils.fusion.fuse_conv_bn_eval(
                traced.get_submodule(conv.target), traced.get_submodule(node.target)
            )
            traced.add_submodule(conv.target, fused)
            node.replace_all_uses_with(conv)
            traced.graph.erase_node(node)
    traced.recompile()
    traced.delete_all_unused_submodules()
    x = nt.randn(1, 3, 8, 8)
    assert [name for name, _ in traced.named_children()] == ["0", "2"]
    assert nt.allclose(traced(x), model(x), atol=1e-5)


def test_features_by_node_names() -> None:
    model = layers(nt)
    traced = nt.fx.symbolic_trace(model)
    wanted = next(node for node in traced.graph.nodes if node.name == "relu")
    output = traced.graph.output_node()
    with traced.graph.inserting_before(output):
        traced.graph.output({"relu": wanted})
    traced.graph.erase_node(output)
    traced.graph.eliminate_dead_code()
    traced.recompile()
    traced.delete_all_unused_submodules()
    x = nt.randn(4, 3)
    assert nt.equal(traced(x)["relu"], nt.relu(model.first(x) + model.bias * 2))
    assert [name for name, _ in traced.named_children()] == ["first"]


def test_drawing() -> None:
    traced = nt.fx.symbolic_trace(layers(nt))
    drawer = nt.fx.passes.graph_drawer.FxGraphDrawer(traced, "layers")
    text = drawer.get_dot_graph().to_string()
    assert (
        text.startswith('digraph "layers" {')
        and '"first" -> "add";' in text
        and text.count("label=") == len(traced.graph.nodes)
    )


def test_what_is_there_already_is_asked_of_other_classes() -> None:
    class Mine:
        @classmethod
        def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if function in (nt.relu, torch.relu):
                return NotImplemented
            return function.__name__, types == (Mine,), len(args), kwargs

    for m in BOTH:
        mine = Mine()
        assert m.add(mine, 1) == ("add", True, 2, None)
        with pytest.raises(TypeError, match="Multiple dispatch failed for 'torch.relu'"):
            m.relu(mine)


def _asserts(m):
    def program(x):
        m._assert(x.shape[0] == 2, "two rows are needed")
        return m.einsum("ij,kj->ik", [x, x]) + m.tensordot(x, x.t(), 1)

    return program


def test_annotations_and_assertions():
    """Types of inputs and results, and torch._assert of what is traced."""
    import typing as t

    for kind in (
        "t.Optional[m.Tensor]", "t.Dict[str, m.Tensor]", "t.Tuple[m.Tensor, ...]", "list[int]", "m.Tensor | None",
        "t.Any", "t.List[t.Optional[int]]", "tuple[int, ...]", "int", "t.Union[int, m.Tensor, None]",
    ):  # fmt: skip
        codes = []
        for m in (nt, torch):
            graph = m.fx.Graph()
            x = graph.placeholder("x", eval(kind, {"t": t, "m": m}))
            graph.output(x, x.type)
            made = m.fx.GraphModule({}, graph)
            codes.append(made.code)
            assert made(3) == 3
        assert codes[0] == codes[1], kind
    found = []
    assert nt.einsum("i,i->", nt.ones(2), nt.ones(2)) == 2  # loaded before, or when the trace asks: the same nodes
    for m in (nt, torch):
        made = m.fx.symbolic_trace(_asserts(m))
        assert m.equal(made(m.eye(2)), 2 * m.eye(2))
        with pytest.raises(AssertionError, match="two rows are needed"):
            made(m.ones(3, 3))
        found.append([(node.op, node.name, len(node.args)) for node in made.graph.nodes])
        assert "torch._assert(eq, 'two rows are needed')" in made.code
    assert found[0] == found[1]


def test_writes_by_an_overload_are_no_dead_code():
    def run(t):
        graph = t.fx.Graph()
        x = graph.placeholder("x")
        graph.call_function(t.ops.aten.add_.Tensor, (x, 1))
        graph.call_function(t.ops.aten.add.Tensor, (x, 1))
        graph.output(x)
        graph.eliminate_dead_code()
        return [str(node.target) for node in graph.nodes]

    assert run(nt) == run(torch) == ["x", "aten.add_.Tensor", "output"]


SIDES = pytest.mark.parametrize("lib", [nt, torch], ids=["narthex", "torch"])


@SIDES
def test_lines_that_a_program_puts_into_a_body(lib: Any) -> None:
    """on_generate_code, for good and inside of a context."""
    gm = lib.fx.symbolic_trace(lambda x: x.sin() + 1)
    said: list = []
    with gm.graph.on_generate_code(lambda before: lambda body: ["said.append(1)\n", *body]):
        gm.recompile()
    type(gm).forward.__globals__["said"] = said
    assert "    said.append(1)\n" in gm.code and gm(lib.zeros(1)).item() == 1 and said == [1]
    gm.recompile()
    assert "said" not in gm.code
    gm.graph.on_generate_code(lambda before: lambda body: ["pass\n", *body])
    gm.graph.on_generate_code(lambda before: lambda body: before(["...\n", *body]))
    gm.recompile()
    assert gm.code.index("pass") < gm.code.index("...") < gm.code.index("sin") and gm(lib.zeros(1)).item() == 1


@SIDES
def test_how_a_function_is_written(lib: Any) -> None:
    graph = lib.fx.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y", default_value=None)
    graph.output(graph.call_function(lib.neg, (x,)))
    assert y.args == (None,) and x.args == ()
    code = graph.python_code("self", expanded_def=True).src
    assert re.sub(r"\s+", "", code).startswith("defforward(self,x,y=None") and code.count("\n    x,") == 1
    with pytest.raises(TypeError, match="root_module"):
        graph.python_code()
    names = ["a"]
    assert lib.fx.graph.CodeGen().gen_fn_def(names, " -> int") == "def forward(self, a) -> int:" and names[0] == "self"


@SIDES
def test_names_that_a_tracer_has_not_given(lib: Any) -> None:
    class Root(lib.nn.Module):
        def forward(self, x: Any) -> Any:
            return x

    tracer = lib.fx.Tracer()
    tracer.root = Root()
    given = []
    for _ in range(3):
        given.append(tracer.get_fresh_qualname("part"))
        setattr(tracer.root, given[-1], lib.ones(1))
    del tracer.root.part1
    assert given == ["part0", "part1", "part2"] and tracer.get_fresh_qualname("part") == "part3"
    assert tracer.get_fresh_qualname("other") == "other0" and tracer.get_fresh_qualname("part") in ("part3", "part4")


def test_what_a_backend_is_given() -> None:
    """Names and types of the inputs, and what each node gave, are PyTorch's."""

    def seen(m: Any) -> list:
        found: list = []

        def backend(gm: Any, inputs: list) -> Callable:
            for node in gm.graph.nodes:
                value = node.meta.get("example_value")
                found.append((node.name, str(node.type), None if value is None else (tuple(value.shape), value.dtype)))
            return gm.forward

        layer, scale = m.nn.Linear(3, 2), m.nn.Parameter(m.ones(2))

        def scaled(x: Any) -> Any:
            return layer(x).sum(0) * scale

        m.compile(scaled, backend=backend)(m.ones(4, 3))
        told = m._dynamo.explain(scaled)(m.ones(4, 3))
        texts = [str(row).replace("narthex._tensor", "torch").replace("narthex", "torch") for row in found]
        return [*texts, told.op_count, told.graph_count]

    assert seen(nt) == seen(torch)


@pytest.mark.parametrize("m", [nt, torch], ids=["ours", "theirs"])
def test_modules_stand_in_the_order_of_their_calls(m: Any) -> None:
    class Net(m.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = m.nn.Linear(2, 2)
            self.blocks = m.nn.ModuleList([m.nn.Linear(2, 2)])
            self.scale = m.nn.Parameter(m.ones(2))

        def forward(self, x: Any) -> Any:
            return self.head(self.blocks[0](x) * self.scale)

    gm = m.fx.symbolic_trace(Net())
    names = [name for name, _ in gm.named_parameters()]
    assert names == ["scale", "blocks.0.weight", "blocks.0.bias", "head.weight", "head.bias"]


@pytest.mark.parametrize("m", [nt, torch], ids=["ours", "theirs"])
def test_two_inputs_of_a_pattern_are_two_nodes(m: Any) -> None:
    def pattern(a: Any, b: Any) -> Any:
        return m.mul(a, b)

    for f, n in ((lambda x: m.mul(x, x), 0), (lambda x: m.mul(x, m.neg(x)), 1)):
        gm = m.fx.symbolic_trace(f)
        assert len(m.fx.subgraph_rewriter.replace_pattern(gm, pattern, lambda a, b: m.add(a, b))) == n


def test_errors_of_an_aot_compiler_are_the_backends() -> None:
    def broken(gm: Any, inputs: list) -> Any:
        raise KeyError("no rule")

    for m in (nt, torch):
        backend = m._dynamo.backends.common.aot_autograd(fw_compiler=broken)
        with pytest.raises(m._dynamo.exc.BackendCompilerFailed, match="backend='compiler_fn' raised") as told:
            m.compile(lambda x: x * 2, backend=backend)(m.ones(2))
        assert isinstance(told.value.inner_exception, KeyError)


@nt.fx.wrap
def not_for_proxies(x: Any) -> Any:
    return x + 1 if float(x.sum()) > 0 else x


def test_a_pickle_knows_what_was_wrapped() -> None:
    gm = nt.fx.symbolic_trace(lambda x: not_for_proxies(x) * math.sqrt(x.size(0)))
    assert gm.code.count("torch.fx._symbolic_trace.wrap(") == 2
    again = pickle.loads(pickle.dumps(gm))
    assert again(nt.ones(4)).tolist() == [4.0] * 4 and again.code == gm.code


def test_arguments_that_are_given_stay_arguments() -> None:
    def f(x: Any, flag: bool, n: int = 3, mask: Any = None) -> Any:
        return x * n if flag and mask is None else x

    told = []
    for m in (nt, torch):
        gm = m.fx.symbolic_trace(f, concrete_args={"flag": True, "mask": None})
        assert gm(m.ones(2), True, 5).tolist() == [5.0, 5.0]
        for wrong in ((False,), (True, 3, 1)):
            with pytest.raises(AssertionError, match="has been specialized to have value"):
                gm(m.ones(2), *wrong)
        told.append((gm.code, [str(node.args) for node in gm.graph.nodes]))
    assert told[0] == told[1]
    gm = nt.fx.symbolic_trace(f, concrete_args={"flag": True, "mask": None})
    assert pickle.loads(pickle.dumps(gm)).code == gm.code


def test_parts_have_their_places_as_names() -> None:
    def f(x: Any) -> Any:
        _, b, c = x.split(1)
        return c * 2, b, x[0], x.max(0)[1]

    told: list = []

    def backend(gm: Any, inputs: list) -> Any:
        told.append([(node.name, str(node.args)) for node in gm.graph.nodes])
        return gm.forward

    for m in (nt, torch):
        boxed = importlib.import_module(f"{m.__name__}._functorch.aot_autograd").make_boxed_func

        def compiler(gm: Any, inputs: list, boxed: Callable = boxed) -> Any:
            return boxed(backend(gm, inputs))

        x = m.ones(3, 2)
        m.compile(f, backend=backend)(x)
        m.compile(f, backend=m._dynamo.backends.common.aot_autograd(fw_compiler=compiler))(x)
    assert told[:2] == told[2:]
