"""torch.export beside PyTorch's: graphs, signatures, open sizes, what is refused, and how it is told."""

from __future__ import annotations

import importlib
import io
import re
from typing import Any

import narthex
import narthex.export
import pytest
import torch
import torch.export
from models import cases

BOTH = (narthex, torch)
NAMES = sorted(cases(narthex))


def module(side: Any, function: Any) -> Any:
    class Call(side.nn.Module):
        def forward(self, *args: Any) -> Any:
            return function(*args)

    return Call()


def exported(side: Any, name: str) -> tuple:
    side.manual_seed(0)
    mod, args, kwargs, shapes, again = cases(side)[name]
    return mod, side.export.export(mod, args, kwargs, dynamic_shapes=shapes), again


@pytest.mark.parametrize("name", NAMES)
def test_a_program_computes_what_its_module_does(name: str) -> None:
    mod, program, (args, kwargs) = exported(narthex, name)
    found, decomposed = program.module()(*args, **kwargs), program.run_decompositions()
    for buffer in mod.buffers():
        if name in ("state", "static"):
            buffer.sub_(1) if buffer.ndim == 0 else None
    expected = mod(*args, **kwargs)
    narthex.testing.assert_close(found, expected)
    for buffer in mod.buffers():
        if name in ("state", "static"):
            buffer.sub_(1) if buffer.ndim == 0 else None
    narthex.testing.assert_close(decomposed.module()(*args, **kwargs), expected)
    decomposed.validate()


def placeholders(program: Any) -> list[str]:
    return [str(spec) for spec in program.graph_signature.input_specs]


def bounds(program: Any) -> list[str]:
    return sorted(map(str, program.range_constraints.values()))


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("shapes", "written")])
def test_inputs_are_pytorchs(name: str) -> None:
    (_, ours, _), (_, theirs, _) = exported(narthex, name), exported(torch, name)
    assert placeholders(ours) == placeholders(theirs)
    assert len(ours.graph_signature.output_specs) == len(theirs.graph_signature.output_specs)
    assert str(ours.call_spec.in_spec).split() == str(theirs.call_spec.in_spec).split()
    assert bounds(ours) == bounds(theirs)
    assert list(ours.state_dict) == list(theirs.state_dict) and sorted(ours.constants) == sorted(theirs.constants)
    assert ours.dialect == theirs.dialect and ours.run_decompositions().dialect == "ATEN"
    names = [entry.signature.forward_arg_names for entry in (ours.module_call_graph[0], theirs.module_call_graph[0])]
    assert names[0] == names[1]


def code(side: Any, function: Any, *args: Any) -> str:
    shapes = ((args[-1],),) if isinstance(args[-1], dict) else None
    args = args[:-1] if shapes else args
    text = side.export.export(module(side, function), args, dynamic_shapes=shapes).graph_module.code
    return re.sub(r"sym_size_int_1", "sym_size_int", text)


def programs(side: Any) -> list[tuple]:
    x, f, dim = side.ones(4, 3), side.nn.functional, side.export.Dim("n")
    return [
        (lambda x: side.relu(x + 1).sum(), x),
        (lambda x, y: f.linear(x, y).softmax(-1), x, side.ones(2, 3)),
        (lambda x: (x[0], x[:, 1:], x[None]), x),
        (lambda x: side.cat([x, x * 2], 1).t().mean(0, keepdim=True), x),
        (lambda x: x.reshape(x.shape[0] * 3), x, {0: dim}),
        (lambda x: f.silu(x).clamp(max=2).pow(2).mean(0), x),
        (lambda x: side.where(x > 0, x, x * 2).masked_fill(x < -1, 0.5), x),
        (lambda x: x.split(2)[1] * x.unbind(1)[0][:2, None], x),
    ]


@pytest.mark.parametrize("k", range(8))
def test_code_is_pytorchs(k: int) -> None:
    ours, theirs = (code(side, *programs(side)[k]) for side in BOTH)
    strip = lambda text: re.sub(r"\n\s*\n", "\n", text)  # noqa: E731
    assert strip(ours) == strip(theirs)


def test_a_module_with_state_is_printed_as_pytorchs_is() -> None:
    texts = []
    for side in BOTH:
        linear = side.nn.Linear(3, 4)
        program = side.export.export(linear, (side.ones(2, 3),), dynamic_shapes=({0: side.export.Dim("b", max=8)},))
        text = str(program).replace("input_1 = input\n", "").replace("input_1", "input")
        texts.append([line.strip() for line in text.split("\n") if line.strip() and "# File" not in line])
    assert texts[0] == texts[1]


# ---- sizes
def refusals(side: Any) -> dict[str, Any]:
    export, dim, x, y = side.export.export, side.export.Dim, side.ones(4, 3), side.ones(4, 3) * 2
    add, one = module(side, lambda x, y: x + y), lambda function: module(side, function)

    class Add(side.nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return x + y

    add = Add()
    b, c = dim("b"), dim("c", min=2, max=10)
    shapes = lambda first, second: {"x": first, "y": second}  # noqa: E731
    return {
        "equal": lambda: export(add, (x, y), dynamic_shapes=shapes({0: b}, {0: c})),
        "one is static": lambda: export(add, (x, y), dynamic_shapes=shapes({0: b}, None)),
        "a size of one": lambda: export(add, (x[:1], y), dynamic_shapes=shapes({0: b}, {0: c})),
        "a branch": lambda: export(one(lambda x: x * 2 if x.shape[0] > 3 else x), (x,), dynamic_shapes=(({0: b},),)),
        "equal to a number": lambda: export(
            one(lambda x: x if x.shape[0] == 4 else -x), (x,), dynamic_shapes=(({0: b},),)
        ),
        "a hint": lambda: export(one(lambda x: x.view(4, 3)), (x,), dynamic_shapes=(({0: dim.DYNAMIC},),)),
        "a key": lambda: export(add, (x, y), dynamic_shapes={"x": {0: b}, "z": None}),
        "too few": lambda: export(add, (x, y), dynamic_shapes=({0: b},)),
        "a text": lambda: export(add, (x, y), dynamic_shapes=shapes({0: "foo"}, None)),
        "too long": lambda: export(add, (x, y), dynamic_shapes=shapes((b, None, None), None)),
        "another size": lambda: export(add, (x, y), dynamic_shapes=shapes({0: 7}, None)),
        "no such dimension": lambda: export(add, (x, y), dynamic_shapes=shapes({5: b}, None)),
        "two of a name": lambda: export(add, (x, y), dynamic_shapes=shapes({0: dim("q", min=2)}, {0: dim("q", min=3)})),
        "out of bounds": lambda: export(add, (x, y), dynamic_shapes=shapes({0: dim("q", min=8)}, {0: dim("q", min=8)})),
        "bounds": lambda: dim("q", min=5, max=3),
        "a name": lambda: dim("1q"),
        "times a negative": lambda: -2 * dim("q"),
        "times a float": lambda: dim("q") * 1.5,
        "no module": lambda: export(lambda x: x, (x,)),
        "a list": lambda: export(add, [x, y]),
        "an unknown keyword": lambda: export(add, (x, y), {"zz": 1}),
    }


@pytest.mark.parametrize("name", sorted(refusals(narthex)))
def test_what_is_refused_is_told_as_pytorch_does(name: str) -> None:
    errors = []
    for side in BOTH:
        with pytest.raises(Exception) as caught:  # noqa: PT011
            refusals(side)[name]()
        errors.append(caught.value)
    ours, theirs = errors
    assert type(ours).__name__ == type(theirs).__name__
    text = str(theirs).split("\n\nThe error above")[0]
    assert sorted(str(ours).strip().split("\n")) == sorted(text.split("User stack")[0].strip().split("\n"))


def test_elements_that_decide() -> None:
    from narthex.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    x = narthex.ones(3)
    for function in (lambda x: x if x.sum() > 0 else -x, lambda x: x[x > 0], lambda x: x * x[0].item()):
        with pytest.raises(GuardOnDataDependentSymNode):
            narthex.export.export(module(narthex, function), (x,))


def test_a_factor_of_a_size_is_suggested_and_taken() -> None:
    from narthex.export.dynamic_shapes import refine_dynamic_shapes_from_suggested_fixes as refine

    halves = module(narthex, lambda x: x.reshape(x.shape[0] // 2, 2, -1))
    shapes = (({0: narthex.export.Dim("b")},),)
    x = narthex.ones(6, 3)
    with pytest.raises(Exception, match="b = 2\\*_b") as caught:
        narthex.export.export(halves, (x,), dynamic_shapes=shapes)
    program = narthex.export.export(halves, (x,), dynamic_shapes=refine(str(caught.value), shapes))
    assert program.module()(narthex.ones(10, 3)).shape == (5, 2, 3)
    with pytest.raises(AssertionError, match="Guard failed"):
        program.module()(narthex.ones(7, 3))


def test_bounds_of_the_operators_themselves() -> None:
    for side in BOTH:
        dim = side.export.Dim
        conv, image = side.nn.Conv2d(1, 2, 3, 2), side.ones(2, 1, 16, 16)
        shapes = ({0: dim("b"), 2: dim.AUTO, 3: dim.AUTO},)
        program = side.export.export(conv, (image,), dynamic_shapes=shapes)
        assert bounds(program) == ["VR[0, int_oo]", "VR[3, int_oo]", "VR[3, int_oo]"]
        assert "(((s16 - 3)//2)) + 1" in str(program)


def test_numbers_that_stay_open() -> None:
    for side in BOTH:
        dim = side.export.Dim

        class Times(side.nn.Module):
            def forward(self, x: Any, n: int) -> Any:
                return x * n, n + 1

        program = side.export.export(Times(), (side.ones(2), 3), dynamic_shapes={"x": None, "n": dim.DYNAMIC})
        value, more = program.module()(side.ones(2), 5)
        assert value.tolist() == [5.0, 5.0] and more == 6


def test_collections_of_shapes() -> None:
    for side in BOTH:

        class Add(side.nn.Module):
            def forward(self, x: Any, y: Any) -> Any:
                return x + y

        x, y, dim = side.ones(4, 3), side.ones(4, 3) * 2, side.export.Dim("b")
        shapes = side.export.ShapesCollection()
        shapes[x], shapes[y] = {0: dim}, {0: dim}
        assert shapes.dynamic_shapes(Add(), (x, y)) == {"x": {0: dim}, "y": {0: dim}}
        program = side.export.export(Add(), (x, y), dynamic_shapes=shapes)
        assert program.module()(x[:2], y[:2]).shape == (2, 3)
        more = side.export.AdditionalInputs()
        more.add((side.ones(5, 3), side.ones(5, 3)))
        program = side.export.export(Add(), (x, y), dynamic_shapes=more)
        more.verify(program)
        assert bounds(program) == ["VR[2, int_oo]"]


@pytest.mark.parametrize("side", BOTH)
def test_calls_that_do_not_fit(side: Any) -> None:
    class Add(side.nn.Module):
        def forward(self, x: Any, y: Any, n: int = 2) -> Any:
            return x + y * n

    dim, x = side.export.Dim("b", min=3, max=10), side.ones(4, 3)
    shapes = {"x": {0: dim}, "y": {0: dim}, "n": None}
    call = side.export.export(Add(), (x, x * 2), {"n": 3}, dynamic_shapes=shapes).module()
    for args, text in (
        ((side.ones(12, 3), side.ones(12, 3)), r"Guard failed: x.size\(\)\[0\] <= 10"),
        ((side.ones(5, 3), side.ones(4, 3)), r"Guard failed: y.size\(\)\[0\] == x.size\(\)\[0\]"),
        ((side.ones(4, 4), side.ones(4, 4)), r"Guard failed: x.size\(\)\[1\] == 3"),
    ):
        with pytest.raises(AssertionError, match=text):
            call(*args, n=3)
    with pytest.raises(AssertionError, match="Guard failed: n == 3"):
        call(x, x, n=4)
    with pytest.raises(ValueError, match="Trying to flatten user inputs"):
        call(x, n=3)
    with pytest.raises(ValueError, match=r"Got the following keywords \[\] but expected \['n'\]"):
        call(x, x)
    with pytest.raises(NotImplementedError, match="train"):
        call.train()


# ---- state
def test_a_program_shares_the_modules_state_and_leaves_it_alone() -> None:
    mod, program, _ = exported(narthex, "state")
    assert mod.count.item() == 0.0 and program.state_dict["linear.weight"] is mod.linear.weight
    assert dict(program.named_parameters())["linear.bias"] is mod.linear.bias
    assert [name for name, _ in program.named_buffers()] == ["count", "shift"]
    with pytest.raises(RuntimeError, match="Unable to call ExportedProgram directly"):
        program(narthex.ones(4, 3))


def counter_of(side: Any) -> Any:
    class Counter(side.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", side.zeros(3))
            self.calls = 0

        def forward(self, x: Any) -> Any:
            self.seen = self.seen + x
            self.calls += 1
            return x * self.seen

    return Counter()


def test_buffers_that_are_written() -> None:
    texts = []
    for side in BOTH:
        counter = counter_of(side)
        program = side.export.export(counter, (side.ones(3),))
        assert counter.calls == 0 and counter.seen.tolist() == [0.0, 0.0, 0.0]
        call = program.module()
        call(side.ones(3))
        assert call(side.ones(3)).tolist() == [2.0, 2.0, 2.0]
        functional = program.run_decompositions()
        assert dict(functional.graph_signature.buffers_to_mutate) == {"add": "seen"}
        texts.append((program.graph_module.code, functional.graph_module.code))
    assert texts[0] == texts[1]


def test_arguments_of_classes_that_are_registered() -> None:
    import dataclasses

    @dataclasses.dataclass
    class Pair:
        first: Any
        second: Any

    narthex.export.register_dataclass(Pair, serialized_type_name="tests.Pair")
    total = module(narthex, lambda pair: Pair(pair.first + pair.second, pair.first))
    program = narthex.export.export(total, (Pair(narthex.ones(2), narthex.ones(2)),))
    result = program.module()(Pair(narthex.ones(2), narthex.zeros(2)))
    assert isinstance(result, Pair) and result.first.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("lib", [narthex, torch], ids=["narthex", "torch"])
def test_tables_and_names_are_changed_by_hand(lib: Any) -> None:
    """What is taken out of the table stays an operator; a name in a signature; an unflattened graph that was edited."""
    table = lib.export.default_decompositions()
    assert type(table) is lib.export.CustomDecompTable and type(table.copy()) is type(table)
    silu = lib.ops.aten.silu.default
    program = lib.export.export(module(lib, lambda x: lib.nn.functional.silu(x)), (lib.ones(2, 2),))
    assert "silu" not in program.run_decompositions(table).graph_module.code
    kept = table.copy()
    assert callable(kept.pop(silu)) and silu in table and silu not in kept and silu not in kept.materialize()
    assert "silu" in program.run_decompositions(kept).graph_module.code
    with pytest.raises(KeyError):
        kept.pop(silu)

    entry, argument = program.module_call_graph[0].signature, lib.export.graph_signature.TensorArgument
    entry.inputs.extend(argument(name=name) for name in ("a", "b"))
    nodes = [lib.fx.Graph().placeholder(name) for name in ("a", "b")]
    entry.replace_all_uses_with(*nodes)
    assert [each.name for each in entry.inputs][-2:] == ["b", "b"]

    program = lib.export.export(module(lib, lambda x: x + 1), (lib.ones(2),))
    whole = lib.export.unflatten(program)
    (add,) = (node for node in whole.graph.nodes if node.op == "call_function")
    add.args = (add.args[0], 5)
    whole.finalize()
    assert whole(lib.ones(2)).tolist() == [6.0, 6.0]


@pytest.mark.parametrize("lib", [narthex, torch], ids=["narthex", "torch"])
def test_a_draft_tells_which_sizes_it_could_not_leave_open(lib: Any) -> None:
    """The report and the bounds of the program are PyTorch's."""
    halves = module(lib, lambda x: x + 1 if x.shape[0] > 5 else x - 1)
    x, dim = lib.ones(4, 3), lib.export.Dim("b")
    for shapes in (None, (({0: lib.export.Dim.AUTO},),)):
        report = lib.export.draft_export(halves, (x,), dynamic_shapes=shapes)._report
        assert report.successful() and report.failures == [] and repr(report) == "DraftExportReport([])"
    program = lib.export.draft_export(halves, (x,), dynamic_shapes=(({0: dim},),))
    report = program._report
    assert not report.successful() and [str(f.failure_type) for f in report.failures] in (["GUARD_ADDED"], ["3"])
    assert "5" in report.failures[0].data["expr"] and "dynamic_shapes" in str(report)
    assert "AUTO" in str(report.failures[0].data["new_dynamic_shapes"])
    (bounds,) = program.range_constraints.values()
    assert bounds.upper == 5  # below, PyTorch has 2: 0 and 1 are sizes of their own there
    assert program.module()(lib.ones(3, 3)).tolist() == [[0.0] * 3] * 3
    with pytest.raises(Exception, match="Constraints violated"):
        lib.export.export(halves, (x,), dynamic_shapes=(({0: dim},),))
    with pytest.raises(Exception, match="Expecting `args` to be a tuple"):
        lib.export.draft_export(halves, [x])


def test_what_narthex_lacks_it_says() -> None:
    class Leaf:
        pass

    with pytest.raises(narthex._dynamo.exc.UserError, match="Unsupported input type"):
        narthex.export.export(narthex.nn.ReLU(), (Leaf(),))


def test_a_program_on_another_device() -> None:
    from narthex.compat import torch_npu  # noqa: F401  (adds npu:0)

    mod = narthex.nn.Linear(3, 2)

    class Made(narthex.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = mod

        def forward(self, x: Any) -> Any:
            return self.linear(x) + narthex.arange(2, device="cpu")

    x = narthex.ones(4, 3)
    program = narthex.export.export(Made(), (x,))
    expected = program.module()(x)
    moved = narthex.export.passes.move_to_device_pass(program, "npu:0")
    result = moved.module()(x.to("npu:0"))
    assert result.device.type == "npu" and mod.weight.device.type == "cpu"
    narthex.testing.assert_close(result.cpu(), expected)


def test_results_with_names() -> None:
    program = narthex.export.export(module(narthex, lambda x: x.max(1)), (narthex.ones(2, 3),))
    result = program.module()(narthex.eye(3)[:2])
    assert result.values.tolist() == [1.0, 1.0] and result.indices.tolist() == [0, 1]


def test_conditions_and_loops() -> None:
    """The program holds both branches, and the loop; its sizes are fixed, and files do not take a loop."""
    from narthex._higher_order_ops import while_loop

    class Steps(narthex.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = narthex.nn.Linear(3, 3)

        def forward(self, x: Any) -> Any:
            y = narthex.cond(x.sum() > 0, lambda a: self.linear(a), lambda a: narthex.nn.functional.gelu(a), (x,))
            return while_loop(lambda y: y.abs().sum() < 50, lambda y: (y * 2 + x,), (y,))[0]

    mod, x = Steps(), narthex.ones(2, 3)
    program = narthex.export.export(mod, (x,))
    calls = [str(node.target) for node in program.graph.nodes if "narthex" in str(node.target)]
    assert calls == ["narthex.cond.default", "narthex.while_loop.default"]
    for run in (program.module(), program.run_decompositions().module()):
        for scale in (1, -1, 9):
            narthex.testing.assert_close(run(x * scale), mod(x * scale))
    with pytest.raises(NotImplementedError, match="go into no archive"):
        narthex.export.save(program, io.BytesIO())
    with pytest.raises(NotImplementedError, match="go into no file"):
        narthex.model_file.save(program, "steps.model")
    with pytest.raises(narthex._dynamo.exc.UserError):
        narthex.export.export(mod, (x,), dynamic_shapes=({0: narthex.export.Dim("rows")},))


@pytest.mark.parametrize("lib", [narthex, torch], ids=["ours", "theirs"])
def test_a_runtime_asks_what_an_input_is(lib: Any) -> None:
    class Net(lib.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = lib.nn.Parameter(lib.ones(2))
            self.register_buffer("kept", lib.full((2,), 2.0))
            self.register_buffer("dropped", lib.full((2,), 3.0), persistent=False)
            self.table = lib.full((2,), 4.0)

        def forward(self, x):
            return x * self.weight + self.kept * self.dropped - self.table

    asked = importlib.import_module(f"{lib.__name__}._export.utils")
    program = lib.export.export(Net(), (lib.ones(2),))
    told = []
    for node in program.graph.find_nodes(op="placeholder"):
        given = [asked.get_param, asked.get_buffer, asked.get_lifted_tensor_constant]
        kinds = [asked.is_param, asked.is_buffer, asked.is_lifted_tensor_constant]
        values = [get(program, node) for get in given]
        assert [value is not None for value in values] == [is_one(program, node) for is_one in kinds]
        told.append((node.name, [None if value is None else value[0].item() for value in values]))
    assert told == [
        ("p_weight", [1, None, None]),
        ("b_kept", [None, 2, None]),
        ("b_dropped", [None, 3, None]),
        ("c_table", [None, None, 4]),
        ("x", [None, None, None]),
    ]
