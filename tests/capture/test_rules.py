"""What programs say of functions and breaks before anything is compiled, beside PyTorch: rules for calls, errors at
breaks, calls that wait for the graph, numbers that are never left open."""

import logging
import operator

import narthex
import pytest
import torch as pytorch
from torch._dynamo import testing as _testing  # noqa: F401  (loaded for torch._dynamo.testing)

SIDES = pytest.mark.parametrize("torch", [narthex, pytorch], ids=["narthex", "pytorch"])
LOGGER = logging.getLogger(__name__)


@pytest.fixture(autouse=True)
def fresh():
    for side in (narthex, pytorch):
        side._dynamo.reset()


def counting(torch):
    return torch._dynamo.testing.CompileCounter()


@SIDES
def test_a_call_that_graphs_leave_out(torch):
    def function(x):
        return torch.add(torch.sub(torch.add(x, 1), 1), 1)

    dynamo, counter = torch._dynamo, counting(torch)
    assert dynamo.disallow_in_graph(torch.sub) is torch.sub
    compiled = torch.compile(function, backend=counter)
    assert compiled(torch.ones(1)).tolist() == [2] and (counter.frame_count, counter.op_count) == (2, 2)
    assert dynamo.allow_in_graph([torch.sub]) == [torch.sub]
    dynamo.reset()
    counter.clear()
    assert compiled(torch.ones(1)).tolist() == [2] and (counter.frame_count, counter.op_count) == (1, 3)
    for ask, text in ((dynamo.disallow_in_graph, "expects a callable"), (dynamo.forbid_in_graph, "only to callables")):
        with pytest.raises(AssertionError, match=text):
            ask(3)
    with pytest.raises(RuntimeError, match="already allowed callable"):
        dynamo.disallow_in_graph(operator.indexOf)


@SIDES
def test_a_call_that_is_forbidden(torch):
    @torch._dynamo.forbid_in_graph
    def forbidden(x):
        return x

    def function(x):
        try:
            return forbidden(x) + 1
        except AssertionError:
            return x

    assert forbidden(3) == 3
    with pytest.raises(AssertionError, match="Attempt to trace forbidden callable"):
        torch.compile(function, backend="eager")(torch.ones(1))


def index_of(a, b, /):
    for at, item in enumerate(a):
        if item is b or item == b:
            return at
    raise ValueError("sequence.index(x): x not in sequence")


@SIDES
def test_a_function_in_the_place_of_another(torch):
    def original(a, b=1):
        return a

    def other(a, c=1):
        return a

    def better(a, b=1):
        return a * 2 + b

    substitute = torch.compiler.substitute_in_graph
    with pytest.raises(TypeError, match="Signature mismatch"):
        substitute(original)(other)
    with pytest.raises(TypeError, match="expects a function but got"):
        substitute(3)
    wrapped = substitute(original)(better)
    assert wrapped(3) == 3 and wrapped.__name__ == "better" and wrapped.__torch_dynamo_polyfill__ is better
    x = torch.ones(1)
    for called in (original, wrapped):
        compiled = torch.compile(lambda x, called=called: called(x), backend="eager", fullgraph=True)
        assert compiled(x).tolist() == [3]
    with pytest.raises(ValueError, match="Duplicate"):
        substitute(original)(better)


def test_a_function_of_c_that_capture_does_not_know():
    def function(x, wanted):
        return x * operator.indexOf(["a", "b", "c"], wanted)

    with pytest.raises(RuntimeError, match="indexOf"):
        narthex.compile(function, fullgraph=True)(narthex.ones(1), "c")
    narthex._dynamo.substitute_in_graph(operator.indexOf)(index_of)
    compiled = narthex.compile(function, fullgraph=True)
    assert [compiled(narthex.ones(1), wanted).item() for wanted in "cba"] == [2, 1, 0]
    with pytest.raises(ValueError, match="not in sequence"):
        compiled(narthex.ones(1), "d")


@SIDES
def test_breaks_that_are_errors(torch):
    dynamo, x = torch._dynamo, torch.ones(1)

    def inside(x):
        x = x + 1
        with dynamo.error_on_graph_break(True):
            dynamo.graph_break()
        return x

    @dynamo.error_on_graph_break(True)
    def decorated(x):
        dynamo.graph_break()
        return x

    def allowed(x):
        x = x + 1
        with dynamo.error_on_graph_break(False):
            x = x * 2
            dynamo.graph_break()
            x = x * 3
        return x + 1

    def behind(x):
        x = allowed(x) + 1
        dynamo.graph_break()
        return x

    assert decorated(x) is x
    for function in (inside, decorated, lambda x: decorated(x) + 1):
        with pytest.raises(dynamo.exc.Unsupported):
            torch.compile(function, backend="eager")(x)
    counter = counting(torch)
    with dynamo.error_on_graph_break(True):
        compiled = torch.compile(allowed, backend=counter)
        assert compiled(x).item() == 13 and counter.frame_count == 2
        assert compiled(x).item() == 13
        with pytest.raises(dynamo.exc.Unsupported):
            torch.compile(behind, backend="eager")(x)
    assert torch.compile(behind, backend="eager")(x).item() == 14
    dynamo.reset()
    with pytest.raises(dynamo.exc.Unsupported):
        torch.compile(allowed, backend="eager", fullgraph=True)(x)


@SIDES
def test_a_recompilation_that_is_an_error(torch):
    compiled = torch.compile(lambda x, text: x * len(text), backend="eager")
    with torch._dynamo.config.patch(error_on_recompile=True):
        assert compiled(torch.ones(1), "a").tolist() == compiled(torch.ones(1), "a").tolist() == [1]
        with pytest.raises(torch._dynamo.exc.RecompileError, match="Recompiling function <lambda> in .*\n.*guard f"):
            compiled(torch.ones(1), "ab")
    assert compiled(torch.ones(1), "ab").tolist() == [2]


@SIDES
@pytest.mark.parametrize("first", [2, 2.5])
@pytest.mark.parametrize("setting", [None, "specialize_int", "specialize_float"])
def test_numbers_that_are_never_left_open(torch, setting, first):
    counter = counting(torch)
    with torch._dynamo.config.patch({setting: True} if setting else {}):
        compiled = torch.compile(lambda x, n: x * n, backend=counter, dynamic=None)
        assert [compiled(torch.ones(1), first + k).item() for k in range(5)] == [first + k for k in range(5)]
    assert counter.frame_count == (5 if setting == f"specialize_{type(first).__name__}" else 2)


@SIDES
def test_calls_that_wait_for_the_graph(torch, capsys):
    def function(x):
        y = x * 2
        print("it is", y)
        return y + 1

    x, settings = torch.ones(1), torch._dynamo.config
    compiled = torch.compile(function, backend="eager", fullgraph=True)
    with pytest.raises(torch._dynamo.exc.Unsupported):
        compiled(x)
    settings.reorderable_logging_functions.add(print)
    try:
        torch._dynamo.reset()
        assert [compiled(x * k).item() for k in (1, 2)] == [3, 5]
    finally:
        settings.reorderable_logging_functions.remove(print)
    assert capsys.readouterr().out == "it is tensor([2.])\nit is tensor([4.])\n"


@SIDES
def test_calls_that_are_left_out(torch, caplog):
    def function(x):
        LOGGER.warning("of a compiled function")
        return x + 1

    for ignored in (LOGGER.warning, logging.Logger.warning):
        with torch._dynamo.config.patch(ignore_logging_functions={ignored}):
            torch._dynamo.reset()
            assert torch.compile(function, backend="eager", fullgraph=True)(torch.ones(1)).tolist() == [2]
    assert [record.msg for record in caplog.records if record.name == __name__] == []


@SIDES
def test_guesses_of_sizes(torch):
    assert torch._dynamo.override_optimization_hint(3, 8) is None
    for given, wanted in (((3, "a"), "val to be an int"), (("a", 3), "torch.SymInt or int")):
        with pytest.raises(TypeError, match=wanted):
            torch._dynamo.override_optimization_hint(*given)


@SIDES
def test_backward_with_hooks_under_compiled_autograd(torch):
    """Two compiled functions with something uncompiled between them: numbers and hooks are eager's."""

    def first(x, w):
        return (x @ w).sin()

    def second(x):
        return (x * x).sum()

    def run(first, second):
        x = torch.arange(6.0).view(2, 3).requires_grad_()
        w, seen = torch.ones(3, 3).requires_grad_(), []
        y = first(x, w)
        y.register_hook(lambda grad: seen.append(grad.sum().item()) or grad * 2)
        w.register_hook(lambda grad: seen.append(grad[0, 0].item()))
        x.register_post_accumulate_grad_hook(lambda leaf: seen.append(leaf.grad.sum().item()))
        second(y.cos()).backward()
        return [*seen, *x.grad.flatten().tolist(), *w.grad.flatten().tolist()]

    expected = run(first, second)
    with torch._dynamo.config.patch(compiled_autograd=True):
        found = run(torch.compile(first, backend="aot_eager"), torch.compile(second, backend="aot_eager"))
    assert len(found) == 3 + 6 + 9 and found == pytest.approx(expected)


def test_a_whole_backward_goes_to_no_compiler():
    compiled_autograd = narthex._dynamo.compiled_autograd
    with pytest.raises(NotImplementedError, match="aot_autograd"):
        compiled_autograd._enable(narthex.compile)
    with compiled_autograd._disable():
        assert compiled_autograd.reset() is None and not compiled_autograd.compiled_autograd_enabled
