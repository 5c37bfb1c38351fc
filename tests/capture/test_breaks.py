"""Graph breaks: where a graph ends, what happens in between, and how it is told."""

import io
import sys
import traceback

import narthex as torch
import pytest
from narthex import _C

from .conftest import make, ones, ramp, run_graph, same


def prints_in_the_middle(x, y):
    z = x + y
    print("hello", z.shape)
    return z * y


@pytest.fixture
def breaks():
    seen = []
    _C.set_capture_log(lambda event, **info: seen.append(info) if event == "break" else None)
    yield seen
    _C.set_capture_log(None)


def test_print(capsys):
    capture = make(prints_in_the_middle)
    for _ in range(3):
        assert same(capture(ramp(2, 2), ones(2, 2)), ramp(2, 2) + 1)
        assert capsys.readouterr().out == "hello torch.Size([2, 2])\n"
    assert len(capture.graphs) == 2 and capture.entries == 2
    assert [[node.op for node in graph.nodes].count("call_function") for graph in capture.graphs] == [1, 1]


def test_segments_have_their_own_guards(capsys):
    capture = make(prints_in_the_middle)
    capture(ones(2), ones(2))
    capture(ones(3), ones(3))
    assert capture.entries == 4
    assert [reason.split(" mismatch")[0] for reason in capture.recompiles] == ["L['x'] size", "L['z'] size"]


def test_break_is_told(breaks, capsys):
    make(prints_in_the_middle)(ones(1), ones(1))
    (told,) = breaks
    assert told["code"] == "FUNCTION" and told["detail"] == "print"
    assert told["filename"] == __file__
    assert told["line"] == prints_in_the_middle.__code__.co_firstlineno + 2
    assert told["reason"] and told["mend"]


def test_fullgraph():
    with pytest.raises(_C.Unsupported, match=r"does not know \(print\) at .*test_breaks.py:\d+ in prints_in") as error:
        make(prints_in_the_middle, fullgraph=True)(ones(1), ones(1))
    assert "how to mend it" in str(error.value)
    assert make(lambda x: x + 1, fullgraph=True)(ones(1)).tolist() == [2]


def test_fullgraph_names_the_line_in_an_inlined_function():
    def inner(x):
        x = x + 1
        return x if x.data_ptr() > 0 else -x

    with pytest.raises(_C.Unsupported, match=rf"TensorBase.data_ptr.*:{inner.__code__.co_firstlineno + 2} in inner"):
        make(lambda x: inner(x), fullgraph=True)(ones(1))


def test_fullgraph_keeps_the_users_exception():
    with pytest.raises(RuntimeError, match="size of tensor"):
        make(lambda x: x + ones(7), fullgraph=True)(ones(3))
    with pytest.raises(RuntimeError, match="size of tensor"):
        make(lambda x, y: x + y, fullgraph=True)(ones(3), ones(7))


def test_exception_has_the_users_line():
    def fails(x):
        x = x + 1
        return x + ones(7)

    for capture in (make(fails), make(fails)):
        for _ in range(2):
            with pytest.raises(RuntimeError, match="size of tensor") as error:
                capture(ones(3))
            lines = [frame.lineno for frame in traceback.extract_tb(error.tb) if frame.name == "fails"]
            assert lines == [fails.__code__.co_firstlineno + 2]


def test_exception_is_caught_where_the_function_says():
    def catches(x, table):
        try:
            x = x + 1
            x = x * table["absent"]
        except KeyError as error:
            x = x + len(error.args[0])
        else:
            x = x + 100
        return x * 2

    capture = make(catches)
    for _ in range(3):
        assert capture(ones(1), {}).tolist() == [16]
    assert capture(ones(1), {"absent": 3}).tolist() == [212]


def test_break_in_a_loop_keeps_the_iterator():
    order = []

    def loop(x, parts):
        for k, part in enumerate(parts):
            x = x + part
            order.append(k)
            if k == 3:
                break
        else:
            x = x * 0
        return x

    capture = make(loop)
    for _ in range(3):
        order.clear()
        assert same(capture(ones(2), [ramp(2)] * 5), ones(2) + ramp(2) * 4)
        assert order == [0, 1, 2, 3]


def test_iterator_of_the_caller_is_consumed_once():
    def consumes(x, parts):
        for part in parts:
            x = x + part
        return x, list(parts)

    capture = make(consumes)
    for _ in range(3):
        assert same(capture(ones(1), iter([ones(1), ones(1)])), (ones(1) * 3, []))


def test_callee_that_breaks_is_compiled_for_itself(capsys):
    def inner(x):
        x = x * 2
        print("inner")
        return x + 1

    def outer(x):
        return inner(x + 1) * 3

    capture = make(outer)
    for _ in range(3):
        assert capture(ones(1)).tolist() == [15]
        assert capsys.readouterr().out == "inner\n"
    assert len(capture.graphs) == 4


def test_module_that_breaks():
    class Noisy(torch.nn.Module):
        def forward(self, x):
            x = x + 1
            heard.append(1)
            return x * 2

    heard = []
    module = Noisy()
    capture = torch.compile(module, backend=run_graph)
    for k in range(3):
        assert capture(ones(1)).tolist() == [4]
        assert len(heard) == k + 1


def test_side_effects_happen_once():
    class Counter:
        n = 0

    def counts(x, counter, names):
        counter.n += 1
        names.append(counter.n)
        x = x + counter.n
        names[0] = "first"
        return x

    capture = make(counts)
    counter, names = Counter(), []
    for k in range(1, 4):
        assert capture(ones(1), counter, names).tolist() == [1 + k]
        assert counter.n == k and len(names) == k and names[0] == "first"


def test_global_store():
    def stores(x):
        global stored
        x = x + 1
        stored = x
        return x * 2

    capture = make(stores)
    for _ in range(2):
        assert capture(ones(1)).tolist() == [4]
        assert stored.tolist() == [2] and not stored._is_fake


def test_branch_on_data():
    def chooses(x):
        if x.sum().item() > 2:
            return x + 1
        return x * 5

    capture = make(chooses)
    for value in (1.0, 3.0, 1.0, 4.0):
        x = torch.tensor([value])
        assert same(capture(x), chooses(x))


def test_generator_function_is_left_alone():
    def generates(x):
        yield x + 1

    assert next(make(generates)(ones(1))).tolist() == [2]


def test_unknown_callable_objects_still_work():
    import functools

    capture = make(functools.partial(lambda x, k: x * k, k=3))
    assert capture(ones(1)).tolist() == [3]
    assert make(max)(1, 2) == 2


def test_settrace_turns_capture_off():
    capture = make(lambda x: x + 1)
    lines = []
    sys.settrace(lambda frame, event, arg: lines.append(frame.f_code.co_name))
    try:
        assert capture(ones(1)).tolist() == [2]
    finally:
        sys.settrace(None)
    assert capture.entries == 0 and "<lambda>" in lines


def test_stdout_may_be_python_code():
    class Stream(io.StringIO):
        def write(self, text):
            return super().write(text.upper())

    stream, real = Stream(), sys.stdout
    sys.stdout = stream
    try:
        make(prints_in_the_middle)(ones(1), ones(1))
    finally:
        sys.stdout = real
    assert stream.getvalue() == "HELLO TORCH.SIZE([1])\n"


@pytest.mark.filterwarnings("ignore:torch.compile")
def test_recursion():
    def power(x, n):
        return x if n == 0 else power(x * 2, n - 1)

    assert make(power)(ones(1), 5).tolist() == [32]
    with pytest.raises(RecursionError):
        make(power)(ones(1), -1)
    assert make(power)(ones(1), 3).tolist() == [8]


# ---- elements of inputs decide
def breaks_of(function, makes):
    """Compares with eager; the codes of the breaks, and how many pieces were compiled."""
    told, capture = [], torch.compile(function)
    _C.set_capture_log(lambda event, **info: told.append(info["code"]) if event == "break" else None)
    try:
        for make in makes:
            assert str(capture(*make())) == str(function(*make()))
    finally:
        _C.set_capture_log(None)
    return told, capture.entries


def with_elements(*elements):
    return [lambda k=k: (ones(4), torch.tensor(k)) for k in elements]


@pytest.mark.parametrize("element", [3.0, 2, True])
@pytest.mark.parametrize(
    "function",
    [lambda x, s: x * s.item(), lambda x, s: x[: int(s)], lambda x, s: x * float(s), lambda x, s: x if s else x * 2],
)
def test_an_element_of_an_input_is_read_and_guarded(function, element):
    assert breaks_of(function, with_elements(element, element, element)) == ([], 1)


def test_a_flag_has_a_graph_for_each_value():
    told, entries = breaks_of(lambda x, s: x * 2 if s else x, with_elements(True, False, True, False))
    assert (told, entries) == ([], 2)


def test_an_element_that_varies_ends_the_graph():
    told, entries = breaks_of(lambda x, s: x * s.item(), with_elements(*(float(k) for k in range(9))))
    assert told == ["FUNCTION"] and entries <= 4


def test_an_element_that_was_written_is_not_the_inputs():
    def writes(x, s):
        s.add_(1)
        return x * s.item(), x if s > 2 else -x

    breaks_of(writes, with_elements(1.0, 1.0, 2.0, 3.0))

    def writes_an_alias(x, s):
        s.view(1).add_(1)
        return x * s.item()

    breaks_of(writes_an_alias, with_elements(1.0, 1.0, 2.0))


def test_an_element_is_told():
    capture = torch.compile(lambda x, s: x * s.item())
    capture(ones(1), torch.tensor(2))
    capture(ones(1), torch.tensor(3))
    assert capture.recompiles == ["L['s'] has another element: expected 2"]


def test_results_whose_size_elements_decide_end_a_graph_and_begin_the_next():
    def picks(x):
        y = x * 2
        some = y[y > 1]
        return some * 3, some.sum() + 1, torch.nonzero(x).shape[0]

    capture = torch.compile(picks)
    for k in range(5):
        x = torch.arange(6.0) - k
        assert str(capture(x)) == str(picks(x))
    assert capture.entries <= 6


# ---- how often a tensor was written ------------------------------------------------------------------------------
def versions_of_a_result(x):
    y = x * 2
    y.add_(1)
    before = y._version
    torch._dynamo.graph_break()
    y.add_(1)
    return y, before, y._version


def versions_of_an_input(x):
    z = x.detach()
    before = z._version
    z.add_(1).mul_(2)
    z[0] = 3
    between = z._version - before
    torch._dynamo.graph_break()
    z.mul_(2)
    return z._version - before, between


def versions_of_a_view(x):
    y = x.clone()
    z = y[0]
    z.add_(1)
    torch._dynamo.graph_break()
    z.mul_(2)
    return y._version, z._version, y


def versions_of_a_leaf(x):
    w = torch.ones(3).mul_(2)
    p = torch.nn.Parameter(w)
    before = p._version
    torch._dynamo.graph_break()
    with torch.no_grad():
        p.add_(1).mul_(2)
    return before, p, w


def versions_of_what_is_saved(x):
    y = (x * 2).exp_()
    z = y * y
    return z.sum(), y, y._version


@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune"])
@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize(
    "function",
    [versions_of_a_result, versions_of_an_input, versions_of_a_view, versions_of_a_leaf, versions_of_what_is_saved],
)
def test_versions(function, requires_grad, mode):
    compiled = torch.compile(function, mode=mode)
    for k in range(3):
        found = []
        for call in (function, compiled):
            x = (torch.arange(6.0).view(2, 3) / 6 + k).requires_grad_(requires_grad)
            results = call(x)
            found.append([part if isinstance(part, int) else part._version for part in results] + [x._version])
            for part in results:
                if isinstance(part, torch.Tensor) and part.requires_grad:
                    part.sum().backward(retain_graph=True)
            found[-1].append(torch.zeros(2, 3) if x.grad is None else x.grad)
        assert found[0][:-1] == found[1][:-1]
        torch.testing.assert_close(found[0][-1], found[1][-1])
