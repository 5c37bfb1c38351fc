"""torch._dynamo and torch.compiler: the names around capture, and settings that take effect."""

import narthex as torch
import pytest
import torch as pytorch
from torch import _dynamo as theirs
from torch._dynamo.testing import CompileCounter as TheirCounter
from torch._dynamo.utils import counters as their_counters

from .conftest import ones

dynamo = torch._dynamo
config = dynamo.config


@pytest.fixture
def counter():
    dynamo.utils.counters.clear()
    return dynamo.testing.CompileCounter()


def test_graphs_calls_and_breaks_are_counted(counter):
    def function(x, dynamo):
        y = x + 1
        dynamo.graph_break()
        return (y * 2).sum()

    compiled, results = torch.compile(function, backend=counter), []
    results.append(compiled(ones(3), dynamo).item())
    real = TheirCounter()
    their_counters.clear()
    results.append(pytorch.compile(function, backend=real)(pytorch.ones(3), theirs).item())
    assert results == [12, 12]
    assert (counter.frame_count, counter.op_count) == (real.frame_count, real.op_count) == (2, 3)
    mine, other = dynamo.utils.counters, their_counters
    assert {k: mine["stats"][k] for k in ("unique_graphs", "calls_captured")} == dict(other["stats"])
    assert list(mine["graph_break"].values()) == list(other["graph_break"].values()) == [1]
    assert mine["frames"]["ok"] == other["frames"]["ok"]
    counter.clear()
    assert counter.op_count == 0


def test_explain():
    def function(x):
        y = x + 1
        print(end="")
        return y * 2

    told = dynamo.explain(function)(ones(2))
    assert (told.graph_count, told.graph_break_count, told.op_count) == (2, 1, 2)
    assert [len(ops) for ops in told.ops_per_graph] == [1, 1]
    first = told.break_reasons[0].user_stack[0]
    assert first.name == "function" and 'print(end="")' in first.line and str(first) in str(told)
    assert [len(ops) for ops in dynamo.explain(lambda x: x.sin() + 1)(ones(2)).ops_per_graph] == [1]
    assert "print" in told.break_reasons[0].reason and "Graph Break Count: 1" in str(told)


def entries(function, tensors, **options):
    compiled = torch.compile(function, backend="eager", **options)
    for x in tensors:
        assert compiled(x).tolist() == function(x).tolist()
    return compiled.entries


def marked(mark, *dims):
    tensors = [ones(n, 2) for n in (3, 4, 5)]
    for x in tensors:
        mark(x, *dims)
    return tensors


def test_marks_of_sizes():
    def function(x):
        return x * x.size(0)

    plain = [ones(n, 2) for n in (3, 4, 5)]
    assert entries(function, plain) == 2
    assert entries(function, marked(dynamo.mark_dynamic, 0)) == 1
    assert entries(function, marked(dynamo.mark_dynamic, [-2])) == 1
    assert entries(function, marked(dynamo.maybe_mark_dynamic, 0)) == 1
    assert entries(function, marked(dynamo.mark_static, 0)) == 3
    assert entries(function, marked(dynamo.mark_static)) == 3
    assert entries(function, marked(dynamo.mark_static, 1)) == 2
    with pytest.raises(ValueError, match="min"):
        dynamo.mark_dynamic(ones(2), 0, min=3, max=2)
    dynamo.mark_dynamic(ones(2), 0, min=1, max=8)


MARKED = [
    ("-o-.o", [1, 2, 2, 2, 2]), ("o-.o", [1, 1, 1, 1]), ("-w.", [1, 2, 2]), ("-s.s", [1, 2, 3, 4]), ("s-.", [1, 1, 2]),
    ("oo", [1, 1]), ("ows", [1, 2, 3]), ("-.o", [1, 2, 3]),
]  # fmt: skip


@pytest.mark.parametrize("m", [torch, pytorch], ids=["narthex", "pytorch"])
@pytest.mark.parametrize(("steps", "counts"), MARKED)
def test_marks_of_a_size_that_was_compiled(m, steps, counts):
    """A letter a call: a mark, - none, the dot another size without one."""
    marks = {"o": m._dynamo.mark_dynamic, "w": m._dynamo.maybe_mark_dynamic, "s": m._dynamo.mark_static}
    m._dynamo.reset()
    count = (dynamo.testing.CompileCounter if m is torch else TheirCounter)()
    compiled, found, n = m.compile(lambda x: x * 2, backend=count), [], 4
    for step in steps:
        n += step == "." or (step == "s" and n > 4)
        x = m.ones(n, 3)
        if step in marks:
            marks[step](x, 0)
        compiled(x)
        found.append(count.frame_count)
    assert found == counts


def test_marks_are_told():
    compiled, x = torch.compile(lambda x: x + 1, backend="eager"), ones(2, 3)
    compiled(x)
    dynamo.mark_dynamic(x, 0)
    compiled(x)
    assert "has other sizes marked in _dynamo_dynamic_indices" in compiled.recompiles[0]


def test_a_result_that_is_assumed_constant():
    calls = []

    @torch.compiler.assume_constant_result
    def setting(name):
        calls.append(name)
        return {"a": 2, "b": 3}[name]

    compiled = torch.compile(lambda x, name: x * setting(name), fullgraph=True, backend="eager")
    for name in ("a", "b", "a", "b", "a"):
        assert compiled(ones(1), name).tolist() == [{"a": 2, "b": 3}[name]]
    assert calls == ["a", "b"]


def test_run_compiles_nothing(counter):
    compiled = torch.compile(lambda x: x + 1, backend=counter)
    assert dynamo.run(lambda x: compiled(x))(ones(1)).tolist() == [2] and counter.frame_count == 0
    compiled(ones(1))
    assert dynamo.run(lambda x: compiled(x))(ones(1)).tolist() == [2] and counter.frame_count == 1


def lengths(n):
    return ["a" * k for k in range(n)]


def test_settings_take_effect():
    def function(x, text):
        return x * len(text)

    with config.patch(recompile_limit=2):
        assert config.cache_size_limit == 2
        compiled = torch.compile(function, backend="eager")
        with pytest.warns(UserWarning, match="compiled 2 times"):
            for text in lengths(5):
                assert compiled(ones(1), text).tolist() == [len(text)]
        assert compiled.entries == 2
        with config.patch("fail_on_recompile_limit_hit", True):
            compiled = torch.compile(function, backend="eager")
            with pytest.raises(torch._dynamo.exc.FailOnRecompileLimitHit, match="fail_on_recompile_limit_hit"):
                for text in lengths(5):
                    compiled(ones(1), text)
    assert config.recompile_limit == 8
    sizes = [ones(n) for n in (2, 3, 4)]
    with config.patch(automatic_dynamic_shapes=False):
        assert entries(lambda x: x + 1, sizes) == 3
    with config.patch(assume_static_by_default=False):
        assert entries(lambda x: x + 1, sizes) == 1
    assert entries(lambda x: x + 1, sizes) == 2


def test_capture_can_be_disabled(counter):
    compiled = torch.compile(lambda x: x + 1, backend=counter)

    @config.patch(disable=True)
    def uncompiled():
        return compiled(ones(1)).tolist()

    assert uncompiled() == [2] and counter.frame_count == 0
    assert compiled(ones(1)).tolist() == [2] and counter.frame_count == 1


def test_names_of_the_same_kind():
    assert dynamo.lookup_backend is dynamo.lookup and not torch.compiler.is_exporting()
    assert torch.compiler.cudagraph_mark_step_begin() is None
    assert dynamo.is_dynamo_disable_recursive(dynamo.disable(ones)) and dynamo.is_dynamo_disable_recursive(ones) is None
    recorder = dynamo.testing.EagerAndRecordGraphs()
    assert dynamo.optimize_assert(recorder)(lambda x: x + 1)(ones(1)).tolist() == [2] and len(recorder.graphs) == 1
    backed = dynamo.testing.CompileCounterWithBackend("aot_eager")
    assert torch.compile(lambda x: x + 1, backend=backed)(ones(1)).tolist() == [2]
    assert (backed.frame_count, backed.op_count, len(backed.graphs)) == (1, 1, 1)


def test_what_capture_raises_and_can_do():
    def breaks(x):
        dynamo.graph_break()
        return x

    with pytest.raises(dynamo.exc.Unsupported, match="graph"):
        torch.compile(breaks, fullgraph=True)(ones(1))
    assert issubclass(dynamo.exc.Unsupported, dynamo.exc.TorchDynamoException)
    assert dynamo.is_dynamo_supported() is theirs.is_dynamo_supported() is True and dynamo.is_inductor_supported()
    assert dynamo.dont_skip_tracing(breaks) is breaks and dynamo.dont_skip_tracing()(breaks) is breaks
    assert dynamo.external_utils.wrap_inline(abs)(-1) == theirs.external_utils.wrap_inline(abs)(-1) == 1
    assert torch.compile(lambda x: dynamo.external_utils.is_compiling(), fullgraph=True)(ones(1)) is True
    assert not dynamo.external_utils.is_compiling()


def test_code_is_forgotten(counter):
    def one(x):
        return x + 1

    captured = [torch.compile(function, backend=counter) for function in (one, lambda x: x * 2)]
    for each in captured:
        each(ones(1))
    dynamo.reset_code(one.__code__)
    assert [each.entries for each in captured] == [0, 1] and counter.frame_count == 2
    assert captured[0](ones(1)).tolist() == [2] and counter.frame_count == 3
    dynamo.reset_code_caches()
    assert [each.entries for each in captured] == [0, 0]
    assert dynamo.utils.counters["frames"]["ok"] == 3
    dynamo.reset_frame_count()
    assert dynamo.utils.counters["frames"]["ok"] == 0


@pytest.mark.parametrize(
    "name",
    ["aot_compile", "on_compile_start", "comptime"],
)
def test_what_is_not_there_says_so(name):
    with pytest.raises(NotImplementedError, match=f"torch._dynamo.{name} is not there yet"):
        getattr(dynamo, name)(ones)
    with pytest.raises(AttributeError, match="does not exist"):
        config.verbosity = True


# ---- what a name does when it is called ---------------------------------------------------------------------------
def test_a_context_of_its_own_callback():
    from narthex._dynamo.eval_frame import _TorchDynamoContext

    def doubled(x):
        return x * 2

    seen = []
    entered = _TorchDynamoContext(lambda frame, *_: seen.append(frame.f_code.co_name))(doubled)
    assert entered(torch.ones(2)).tolist() == [2, 2] and seen == ["doubled"]
    assert _TorchDynamoContext(None)(doubled)(torch.ones(2)).tolist() == [2, 2]
    with pytest.raises(AssertionError, match="Expected callback to be callable, False, or None"):
        _TorchDynamoContext("eager")
    with pytest.raises(AssertionError, match="A callable function is expected"):
        _TorchDynamoContext(None)("eager")


def test_a_lazy_module_becomes_what_it_is_at_its_first_call():
    lazy = torch.nn.LazyLinear(4)
    compiled = torch.compile(lazy, backend="eager")
    x = torch.ones(2, 3)
    first = compiled._call_lazy_check(x)
    assert type(lazy) is torch.nn.Linear and lazy.weight.shape == (4, 3)
    assert torch.allclose(first, lazy(x)) and torch.allclose(compiled(x), lazy(x))


def test_proxies_do_not_enter_compiled_functions():
    compiled = torch.compile(lambda x: x.sin())
    with pytest.raises(RuntimeError, match="symbolically trace a dynamo-optimized function"):
        torch.fx.symbolic_trace(lambda x: compiled(x) + 1)
    assert torch.allclose(compiled(torch.ones(2)), torch.ones(2).sin())
    torch._dynamo.config.error_on_nested_fx_trace = False
    try:
        graph = torch.fx.symbolic_trace(lambda x: compiled(x) + 1)
    finally:
        torch._dynamo.config.error_on_nested_fx_trace = True
    assert torch.allclose(graph(torch.ones(2)), torch.ones(2).sin() + 1)


def test_options_are_names_of_inductors_settings():
    from narthex._dynamo.backends import MODE_OPTIONS, mode_of

    modes = {name: mode_of(options) for name, options in MODE_OPTIONS.items()}
    assert modes.pop("max-autotune-no-cudagraphs") == "max-autotune" and all(name == to for name, to in modes.items())
    x, function = torch.ones(2), lambda x: x.sin() + 1
    for options in ({"triton.cudagraphs": True}, {"max-autotune": True}, {"epilogue_fusion": False}):
        assert torch.allclose(torch.compile(function, options=options)(x), function(x))
    with pytest.raises(RuntimeError, match="Unexpected optimization option nonsense, known options are"):
        torch.compile(function, options={"nonsense": 1})
    with pytest.raises(RuntimeError, match="Unexpected type of attr max_autotune, got int should be bool"):
        torch.compile(function, options={"max_autotune": 3})


def adds_and_skips(x):
    y = x + 1
    dynamo.skip_frame("because")
    return y * 2


def calls_what_skips(x):
    return adds_and_skips(x * 3) * 4


def skips_later(x):
    y = x + 1
    dynamo.graph_break("here")
    y = y * 2
    dynamo.step_unsupported()
    return y - 1


@pytest.mark.parametrize(
    "f, operators", [(adds_and_skips, []), (calls_what_skips, [["mul"], ["mul"]]), (skips_later, [["add"]])]
)
def test_a_frame_is_skipped(f, operators):
    """The graphs are those that PyTorch makes: none of the frame that asks for it, from where its last graph ended."""
    graphs = []

    def backend(gm, inputs):
        graphs.append([node.target.__name__ for node in gm.graph.nodes if node.op == "call_function"])
        return gm

    capture = torch.compile(f, backend=backend)
    for k in range(3):
        assert capture(ones(1) * k) == f(ones(1) * k)
    assert graphs == operators
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(f, backend="eager", fullgraph=True)(ones(1))


def test_the_registry_of_backends():
    def mine(gm, inputs):
        return gm

    assert dynamo.list_backends() == torch.compiler.list_backends() and "eager" not in dynamo.list_backends()
    assert {"eager", "aot_eager", "narthex"} < set(dynamo.list_backends(exclude_tags=None))
    assert dynamo.register_backend(mine, tags=("debug",)) is mine and dynamo.lookup_backend("mine") is mine
    assert dynamo.register_backend(name="again")(mine) is mine and "again" in dynamo.list_backends()
    assert "mine" not in dynamo.list_backends() and "mine" in dynamo.list_backends(exclude_tags=("other",))
    assert dynamo.lookup_backend(mine) is mine
    with pytest.raises(AssertionError, match="duplicate name: mine"):
        dynamo.register_backend(mine)
    with pytest.raises(AssertionError, match="compiler_fn must be callable"):
        dynamo.register_backend(3)
    with pytest.raises(dynamo.exc.InvalidBackend, match="Invalid backend: 'none'"):
        dynamo.lookup_backend("none")


def test_explain_and_export_once_took_the_arguments():
    def f(x, k=1):
        return x * k + 1

    with pytest.warns(FutureWarning, match=r"use explain\(f\)"):
        assert dynamo.explain(f, ones(2), k=2).graph_count == 1
    with pytest.warns(FutureWarning, match=r"use export\(f\)"):
        assert dynamo.export(f, ones(2), k=2).graph_module(ones(2), k=2).tolist() == [3.0, 3.0]
    table = {torch.ops.aten.mul.Tensor: lambda a, b: torch.ops.aten.div.Tensor(a, 1 / b)}
    code = dynamo.export(f, aten_graph=True, decomposition_table=table)(ones(2), 2).graph_module.code
    assert "div" in code and "mul" not in code
    with pytest.raises(AssertionError, match="illegal without setting aten_graph=True"):
        dynamo.export(f, decomposition_table=table)(ones(2))
