"""CapturedFunction as an object: calls, attributes, backends, lifetimes, threads, lack of memory."""

import dis
import gc
import threading
import weakref

import narthex as torch
import pytest
from narthex import _C, nn

from .conftest import compiled, ones, ramp, run_graph, same


def add(x, y):
    return x + y


def make(function, **options):
    return _C.CapturedFunction(function, lambda graph, inputs: torch.fx.GraphModule(graph), **options)


# ---- calls


def test_arguments():
    def many(a, b=2, /, c=3, *rest, d, e=5, **others):
        return a * b + c + d + e, rest, others

    capture = make(many)
    for call in (
        lambda f: f(ones(1), d=4),
        lambda f: f(ones(1), 7, d=4),
        lambda f: f(ones(1), 7, 8, 9, ones(2), d=4, e=6, z=ones(3)),
        lambda f: f(ones(1), c=1, d=ones(1)),
    ):
        for _ in range(2):
            assert same(call(capture), call(many))


@pytest.mark.parametrize("call", [lambda f: f(), lambda f: f(1, 2, 3), lambda f: f(1, z=2), lambda f: f(1, 2, x=3)])
def test_wrong_arguments(call):
    capture = make(add)
    capture(ones(1), ones(1))
    with pytest.raises(TypeError) as expected:
        call(add)
    with pytest.raises(TypeError) as got:
        call(capture)
    assert str(got.value) == str(expected.value)


def test_as_a_method():
    class Scale:
        def __init__(self, k):
            self.k = k

        @make
        def apply(self, x):
            return x * self.k

    two, three = Scale(2), Scale(3)
    for _ in range(2):
        assert two.apply(ones(1)).tolist() == [2]
        assert three.apply(ones(1)).tolist() == [3]
    assert Scale.apply.entries == 2
    assert make(two.apply)(ones(1)).tolist() == [2]
    assert make(lambda x: two.apply(x) + 1)(ones(1)).tolist() == [3]


def test_callable_instance():
    class Adds:
        def __init__(self, k):
            self.k = k

        def __call__(self, x):
            return x + self.k

    capture = make(Adds(2))
    assert capture(ones(1)).tolist() == [3]
    assert capture(ones(1)).tolist() == [3]
    assert capture.entries == 1


def test_inside_another():
    inner = make(lambda x: x * 2)
    outer = make(lambda x: inner(x) + 1)
    assert outer(ones(1)).tolist() == [3]
    assert len(outer.graphs) == 1 and inner.entries == 0


def test_calls_itself_when_it_breaks():
    def factorial(n, x):
        if int(n.item()) < 2:
            return x
        return capture(n + -1, x * n)

    capture = make(factorial)
    assert capture(torch.tensor([4.0]), ones(1)).tolist() == [24]
    assert capture(torch.tensor([5.0]), ones(1)).tolist() == [120]


def test_result_is_the_argument():
    x, y = ones(2), ones(2)
    capture = make(lambda x, y: (x, [y, x], {"y": y}))
    for _ in range(2):
        a, (b, c), d = capture(x, y)
        assert a is x and b is y and c is x and d["y"] is y


def test_gradients():
    w = ramp(2, 2).requires_grad_()
    capture = make(lambda x, w: (x @ w.t() * w).sum())
    capture(ones(2, 2), w).backward()
    got, w.grad = w.grad, None
    ((ones(2, 2) @ w.t() * w).sum()).backward()
    assert same(got, w.grad)


# ---- the object


def test_attributes():
    capture = make(add, name="sum")
    assert capture.fn is add and capture.__wrapped__ is add and not capture.fullgraph
    assert repr(capture) == "<compiled function sum>"
    assert capture.entries == 0 and capture.graphs == [] and capture.recompiles == []
    capture(ones(2), ones(2))
    capture(ones(3), ones(3))
    assert capture.entries == 2 and len(capture.graphs) == 1 and len(capture.recompiles) == 1
    assert "size=(3,)" in repr(capture.graphs[0].nodes) or "[3]" in capture.graphs[0].text()
    capture.reset()
    assert capture.entries == 0 and capture.graphs == [] and capture.recompiles == []
    assert capture(ones(2), ones(2)).tolist() == [2, 2]
    capture.anything = 1
    assert capture.anything == 1


def test_reset_while_running():
    capture = make(lambda x: (x + 1, capture.reset())[0])
    with pytest.raises(RuntimeError, match="is running; reset it when it has returned"):
        capture(ones(1))


@pytest.mark.parametrize("wrong", [(3, print), (print, 3)])
def test_wrong_construction(wrong):
    with pytest.raises(TypeError, match="expected two callables"):
        _C.CapturedFunction(*wrong)


# ---- backends


def test_backend_gets_graph_and_fakes():
    seen = []

    def backend(graph, inputs):
        seen.append((graph, inputs))
        return torch.fx.GraphModule(graph)

    capture = _C.CapturedFunction(add, backend)
    capture(ones(2, 3), ones(3))
    ((graph, inputs),) = seen
    assert type(graph) is _C.Graph and [tuple(x.shape) for x in inputs] == [(2, 3), (3,)]
    assert all(x._is_fake for x in inputs)
    assert "L_x_" in graph.python() and graph.python().index("L_x_") < graph.python().index("L_y_")


@pytest.mark.parametrize("result", [lambda x: (x,), lambda x: [x], lambda x: x], ids=["tuple", "list", "tensor"])
def test_backend_results(result):
    capture = _C.CapturedFunction(add, lambda graph, inputs: lambda x, y: result(x * 5))
    assert capture(ones(1), ones(1)).tolist() == [5]


def test_backend_errors_reach_the_user():
    def backend(graph, inputs):
        raise KeyError("of the backend")

    capture = _C.CapturedFunction(add, backend)
    for _ in range(2):
        with pytest.raises(KeyError, match="of the backend"):
            capture(ones(1), ones(1))
    with pytest.raises(TypeError, match="expected a callable"):
        _C.CapturedFunction(add, lambda graph, inputs: 3)(ones(1), ones(1))
    with pytest.raises(RuntimeError, match="returned 0 values, the graph has 1"):
        _C.CapturedFunction(add, lambda graph, inputs: lambda x, y: ())(ones(1), ones(1))


def test_backend_may_compile():
    inner = make(lambda x: x + 1)

    def backend(graph, inputs):
        assert inner(ones(1)).tolist() == [2]
        return torch.fx.GraphModule(graph)

    assert _C.CapturedFunction(add, backend)(ones(1), ones(1)).tolist() == [2]
    assert inner.entries == 1


# ---- the log


def test_events_in_order():
    events = []
    _C.set_capture_log(lambda event, **info: events.append((event, info)))
    try:
        make(add)(ones(2, 2), ones(2, 2))
    finally:
        _C.set_capture_log(None)
    names = [event for event, _ in events]
    steps = [step for step in dis.get_instructions(add) if step.opname.startswith("LOAD_FAST")]
    n_loads = len(steps)
    assert " ".join(names) == (
        f"start create_env line opcode line {'opcode ' * n_loads}opcode input fake input fake opcode "
        "done compile graph call_backend backend_done guards run ran"
    )
    opcodes = [(info["name"], info["argrepr"]) for event, info in events if event == "opcode"]
    loads = [(step.opname, step.argval if n_loads == 2 else "x") for step in steps]
    assert opcodes == [("RESUME", 0), *loads, ("BINARY_OP", 0), ("RETURN_VALUE", None)]
    stacks = [info["stack"] for event, info in events if event == "opcode"]
    assert stacks[1 + n_loads :] == [["LazyVariableTracker()", "LazyVariableTracker()"], ["TensorVariable()"]]
    inputs = [info for event, info in events if event in ("input", "fake")]
    assert inputs[0] == {"name": "L_x_", "source": "L['x']"} and inputs[3]["shape"] == (2, 2)
    start = events[0][1]
    assert start["name"] == "add" and start["code"] is add.__code__ and start["stack"][-1][2] == "test_events_in_order"


def test_listener_that_fails_is_ignored(recwarn):
    def listener(event, **info):
        raise ValueError(event)

    import sys

    hook, sys.unraisablehook = sys.unraisablehook, lambda unraisable: None
    _C.set_capture_log(listener)
    try:
        assert make(add)(ones(1), ones(1)).tolist() == [2]
    finally:
        _C.set_capture_log(None)
        sys.unraisablehook = hook
    with pytest.raises(TypeError, match="expected a callable or None"):
        _C.set_capture_log(3)


# ---- lifetimes


def calls(capture):
    for shape in ((1,), (2, 2)):
        capture(ones(*shape), ones(*shape))


def breaks(x, y):
    z = x + y
    id(z)
    return [z, z * y, {"x": x}]


@pytest.mark.parametrize("function", [add, breaks, lambda x, y: x + ones(3)], ids=["add", "breaks", "fails"])
@pytest.mark.parametrize("backend", [run_graph, "narthex"], ids=["interpreted", "engine"])
def test_nothing_is_left_behind(function, backend, live):
    def once():
        capture = compiled(function, backend=backend)
        for shape in ((1,), (2, 2), (1,)):
            try:
                capture(ones(*shape), ones(*shape))
            except RuntimeError:
                pass
        capture.reset()

    for _ in range(3):
        once()
    before, objects = live(), len(gc.get_objects())
    for _ in range(5):
        once()
    assert live() <= before  # less: free lists from before the watch drain
    assert len(gc.get_objects()) - objects < 5


def test_references_of_arguments(live):
    import sys

    capture = make(breaks)
    x, y = ones(1), ones(1)
    capture(x, y)  # the graph's own references to None
    before = sys.getrefcount(x), sys.getrefcount(y), sys.getrefcount(None)
    for _ in range(50):
        capture(x, y)
    assert (sys.getrefcount(x), sys.getrefcount(y)) == before[:2]
    assert abs(sys.getrefcount(None) - before[2]) < 20


def test_arguments_and_captures_die():
    class Holder:
        pass

    holder = Holder()
    holder.capture = make(lambda x, h: x + h.k)
    holder.k = 1
    holder.capture(ones(1), holder)
    dead = weakref.ref(holder)
    del holder
    gc.collect()
    assert dead() is None


# ---- threads, memory


def test_threads():
    capture = make(breaks)
    errors = []

    def work(k):
        try:
            for n in range(1, 20):
                x = ones(k) * n
                got = capture(x, x)
                assert got[0].tolist() == [2.0 * n] * k and got[1].tolist() == [2.0 * n * n] * k
        except BaseException as error:  # a thread's failure must reach the test
            errors.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in (1, 2, 3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


@pytest.mark.parametrize("function", [add, breaks], ids=["add", "breaks"])
def test_lack_of_memory(function, live):
    x, y = ones(2), ones(2)
    expected = function(x, y)
    failed = 0
    for n in range(1, 2000):
        capture = make(function)
        _C.alloc_fail_at(n)
        try:
            got = capture(x, y)
        except MemoryError:
            got = None
        happened = _C.alloc_failed()
        _C.alloc_fail_at(0)
        assert got is None or same(got, expected)
        assert same(capture(x, y), expected)
        failed += happened
        if not happened:
            break
    assert failed > 20
    del capture, got
    before = live()
    capture = make(function)
    _C.alloc_fail_at(12)
    try:
        capture(x, y)
    except MemoryError:
        pass
    _C.alloc_fail_at(0)
    del capture
    assert live() <= before  # less: free lists from before the watch drain


def test_a_model_of_many_layers():
    """More values are read than lie on the stack of a call."""
    model = nn.Sequential(*[nn.Linear(2, 2) for _ in range(700)])
    for layer in model:
        with torch.no_grad():
            layer.weight.copy_(torch.eye(2))
            layer.bias.fill_(1.0)
    capture = make(lambda x: model(x), fullgraph=True)
    for _ in range(3):
        assert capture(ones(1, 2)).tolist() == [[701.0, 701.0]]
    with torch.no_grad():
        model[699].bias.fill_(2.0)
    assert capture(ones(1, 2)).tolist() == [[702.0, 702.0]]
    model[350] = nn.Identity()
    assert capture(ones(1, 2)).tolist() == [[701.0, 701.0]]
    assert capture.entries == 2
