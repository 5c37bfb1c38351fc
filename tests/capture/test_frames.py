"""set_eval_frame: a callback for the frames of a thread, and what torch._dynamo makes such callbacks of."""

import json
import threading
from importlib import import_module
from typing import Any

import narthex as nt
import pytest
import torch as pt

from .conftest import ones

BOTH = pytest.mark.parametrize("m", [nt, pt], ids=["narthex", "pytorch"])


def names(m: Any) -> tuple:
    return import_module(f"{m.__name__}._C._dynamo.eval_frame"), import_module(f"{m.__name__}._dynamo.types")


@pytest.fixture(autouse=True)
def no_callback_is_left() -> Any:
    yield
    assert names(nt)[0].set_eval_frame(None) is None
    names(pt)[0].set_eval_frame(None)


SOURCE = """
def takes(a, b=2, *args, k=1, **kw):
    def inner():
        return a

    return inner() + b


def calls():
    return takes(1)


def other(a, b=2, *args, k=1, **kw):
    return ("other", a, b, args, k, kw)
"""


def fresh() -> list:
    """Functions whose code nothing is known of."""
    names: dict = {}
    exec(compile(SOURCE, __file__, "exec"), names)
    return [names[name] for name in ("takes", "calls", "other")]


def under(frames: Any, callback: Any, function: Any, *args: Any) -> Any:
    """What function(*args) returns or raises with the callback, which nothing else of the test sees."""
    frames.set_eval_frame(callback)
    try:
        return function(*args)
    except Exception as error:
        frames.set_eval_frame(None)
        return error
    finally:
        frames.set_eval_frame(None)


def always(m: Any) -> Any:
    """Guards that hold."""
    return import_module("torch._dynamo.guards").GuardManagerWrapper() if m is pt else lambda f_locals: True


@BOTH
def test_what_a_callback_gets(m: Any) -> None:
    frames, types = names(m)
    takes, _, _ = fresh()
    seen = []

    def callback(frame, entry, state):
        seen.append((frame.f_code.co_name, frame.f_lasti, dict(frame.f_locals), entry, dict(state), len(frame.closure)))
        assert frame.f_lineno == frame.f_code.co_firstlineno and frame.f_globals is takes.__globals__
        assert "len" in frame.f_builtins and frames.get_eval_frame_callback() is None
        return types.ConvertFrameReturn()

    assert frames.set_eval_frame(callback) is None
    results = [takes(1, 3, 7, k=5, z=6), takes(1)]
    assert frames.set_eval_frame(None) is callback
    assert results == [4, 3]
    told = {"a": 1, "b": 3, "k": 5, "args": (7,), "kw": {"z": 6}}
    assert seen == [("takes", -1, told, None, {}, 0), ("inner", -1, {"a": 1}, None, {}, 1)]


SAID = [
    ({}, ["calls", "takes", "inner"]),
    ({"apply_to_code": False}, ["calls", "takes", "inner"] * 2),
    ({"actions": (1, 1)}, ["calls"]),
    ({"actions": (0, 0)}, ["calls", "takes", "inner"] * 2),
    ({"actions": (0, 2)}, ["calls", "calls"]),
]


@BOTH
@pytest.mark.parametrize(("said", "expected"), SAID)
def test_what_a_callback_says_of_later_frames(m: Any, said: dict, expected: list) -> None:
    frames, types = names(m)
    _, calls, _ = fresh()
    asked, options = [], dict(said)
    if "actions" in options:
        own, below = options.pop("actions")
        options["frame_exec_strategy"] = types.FrameExecStrategy(types.FrameAction(own), types.FrameAction(below))
    answer = types.ConvertFrameReturn(**options)

    def callback(frame, entry, state):
        asked.append(frame.f_code.co_name)
        return answer

    frames.set_eval_frame(callback)
    results = calls(), calls()
    frames.set_eval_frame(None)
    assert results == (3, 3) and asked == expected


@BOTH
def test_code_that_runs_in_a_frames_place(m: Any) -> None:
    frames, types = names(m)
    takes, calls, other = fresh()
    asked = []

    def callback(frame, entry, state):
        if frame.f_code is not takes.__code__:
            return types.ConvertFrameReturn(apply_to_code=False)
        asked.append((entry, dict(state)))
        return types.wrap_guarded_code(types.GuardedCode(other.__code__, always(m), None))

    frames.set_eval_frame(callback)
    results = [calls(), takes(1, 2, 3, k=4, z=5), takes(a=1)]
    frames.set_eval_frame(None)
    assert results == [("other", 1, 2, (), 1, {}), ("other", 1, 2, (3,), 4, {"z": 5}), ("other", 1, 2, (), 1, {})]
    assert asked == [(None, {})] and takes(1) == 3
    [entry] = frames._debug_get_cache_entry_list(takes.__code__)
    assert entry.code is other.__code__ and entry.backend is callback and entry.trace_annotation == "Unknown"
    assert under(frames, False, calls) == ("other", 1, 2, (), 1, {})  # what there is runs, nobody is asked
    frames.reset_code(takes.__code__)
    assert under(frames, False, calls) == 3


@BOTH
def test_code_with_a_closure(m: Any) -> None:
    frames, types = names(m)

    def outer(n):
        return lambda x: x + n, lambda x: (n, x)

    one, two = outer(5)

    def callback(frame, entry, state):
        if frame.f_code is not one.__code__:
            return types.ConvertFrameReturn(apply_to_code=False)
        return types.wrap_guarded_code(types.GuardedCode(two.__code__, always(m), None))

    frames.set_eval_frame(callback)
    results = one(3), outer(6)[0](4)
    frames.set_eval_frame(None)
    assert results == ((5, 3), (6, 4))


@BOTH
def test_a_callback_that_raises_is_gone(m: Any) -> None:
    frames, types = names(m)
    _, calls, _ = fresh()

    def callback(frame, entry, state):
        raise KeyError("mine")

    found = []

    def runs():
        return calls()

    frames.set_eval_frame(callback)
    try:
        runs()
    except KeyError as error:
        found = [str(error), frames.get_eval_frame_callback(), calls()]
    assert found == ["'mine'", None, 3]


STRATEGIES = [(1, 0), (0, 0), (0, 1), (1, 1), (0, 2)]


@pytest.mark.parametrize("actions", STRATEGIES)
def test_a_frame_that_sets_another_callback(actions: tuple) -> None:
    found = []
    for m in (nt, pt):
        frames, types = names(m)
        strategy = types.FrameExecStrategy(*map(types.FrameAction, actions))

        def other(frame, entry, state, types=types):
            return types.ConvertFrameReturn()

        def callback(frame, entry, state, types=types, strategy=strategy):
            return types.ConvertFrameReturn(strategy, apply_to_code=False)

        for new in (None, False, other):

            def sets(frames=frames, new=new):
                frames.set_eval_frame(new)

            frames.set_eval_frame(callback)
            sets()
            now = frames.set_eval_frame(None)
            found.append("callback" if now is callback else "other" if now is other else now)
    assert found[:3] == found[3:]


def test_code_that_cannot_stand_for_a_frame() -> None:
    frames, types = names(nt)
    takes, calls, _ = fresh()

    def callback(frame, entry, state):
        return types.wrap_guarded_code(types.GuardedCode((lambda: 1).__code__, always(nt)))

    assert "must take the arguments of takes" in str(under(frames, callback, takes, 1))
    assert under(frames, lambda frame, entry, state: None, takes, 1) == 3  # None: as it is


def test_guards_and_their_hooks() -> None:
    frames, types = names(nt)
    takes, _, other = fresh()
    made, hits = [], []

    class Guards:
        def __init__(self, a):
            self.a = a

        def check(self, f_locals):
            if f_locals["a"] == "bad":
                raise ValueError("bad")
            return f_locals["a"] == self.a

    def callback(frame, entry, state):
        if frame.f_code is not takes.__code__:
            return types.ConvertFrameReturn(apply_to_code=False)
        made.append(frame.f_locals["a"])
        return types.wrap_guarded_code(types.GuardedCode(other.__code__, Guards(made[-1])))

    errors = []
    frames.set_guard_error_hook(lambda *told: errors.append(told[2:]))
    assert frames.set_guard_complete_hook(lambda hit: hits.append(hit) or hit) is None
    assert [under(frames, callback, takes, a)[1] for a in (1, 2, 1, 2, 2)] == [1, 2, 1, 2, 2]
    assert str(under(frames, callback, takes, "bad")) == "bad"
    assert frames.set_guard_complete_hook(None) is not None
    frames.set_guard_error_hook(None)
    assert made == [1, 2] and hits == [False, True, True, True]
    assert errors == [({"a": "bad", "b": 2, "k": 1, "args": (), "kw": {}}, 0, False)]


def test_threads_have_callbacks_of_their_own() -> None:
    frames, types = names(nt)
    takes, _, _ = fresh()
    asked, found = [], []

    def callback(frame, entry, state):
        asked.append(threading.get_ident())
        return types.ConvertFrameReturn(apply_to_code=False)

    def elsewhere():
        found.append((takes(1), frames.get_eval_frame_callback()))

    frames.set_eval_frame(callback)
    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    frames.set_eval_frame(None)
    assert found == [(3, None)] and set(asked) == {threading.get_ident()}


# ---- torch._dynamo.convert_frame -----------------------------------------------------------------------------------
class Recorder:
    def __init__(self) -> None:
        self.ops: list = []

    def __call__(self, gm, example_inputs):
        self.ops.append(sum(node.op.startswith("call") for node in gm.graph.nodes))
        return gm.forward


def converting(m: Any, backend: Any, makes: str = "convert_frame") -> Any:
    convert = import_module(f"{m.__name__}._dynamo.convert_frame")
    hooks = import_module(f"{m.__name__}._dynamo.hooks").Hooks()
    made = convert.convert_frame(backend, hooks) if makes == "convert_frame" else convert.convert_frame_assert(backend)
    return convert.catch_errors_wrapper(made, hooks)


@BOTH
def test_frames_that_are_given_are_captured(m: Any) -> None:
    def scaled(x, *more, k=2, **kw):
        return x * k + sum(more) + kw.get("z", 0)

    def both(x):
        return scaled(x, 1, k=3).sum()

    def no_tensors(a):
        return a + 1

    frames, _ = names(m)
    backend = Recorder()
    callback = converting(m, backend)
    x = m.ones(3)
    frames.set_eval_frame(callback)
    results = both(x).item(), both(x).item(), no_tensors(3), scaled(x, 1, 2, k=4, z=5).tolist()
    assert frames.set_eval_frame(None) is callback
    assert results == (12, 12, 4, [12, 12, 12]) and len(backend.ops) == 2
    assert [len(frames._debug_get_cache_entry_list(f.__code__)) for f in (both, scaled, no_tensors)] == [1, 1, 0]
    both(x)
    frames.set_eval_frame(False)
    assert both(m.ones(4)).item() == 16  # nothing fits: uncompiled
    frames.set_eval_frame(None)
    assert len(backend.ops) == 2
    m._dynamo.reset()
    assert frames._debug_get_cache_entry_list(both.__code__) == []


@BOTH
def test_a_frame_must_be_one_graph(m: Any) -> None:
    frames, _ = names(m)

    def breaks(x):
        m._dynamo.graph_break()
        return x + 1

    error = under(frames, converting(m, Recorder(), "convert_frame_assert"), breaks, m.ones(1))
    assert isinstance(error, m._dynamo.exc.Unsupported)
    assert breaks(m.ones(1)).item() == 2


@BOTH
def test_functions_that_c_code_calls(m: Any) -> None:
    backend = Recorder()
    frames, _ = names(m)

    x = m.ones(2)

    def hook(found):
        return x * found["a"] + x

    def reads(text):
        return json.loads(text, object_hook=hook)

    result = under(frames, converting(m, backend), reads, '{"a": 3}')
    assert result.tolist() == [4, 4] and len(backend.ops) == 1


def test_methods_closures_and_generators_are_captured_or_left() -> None:
    frames, _ = names(nt)
    backend = Recorder()

    class Scale(nt.nn.Module):
        def forward(self, x):
            return x * 2

    def steps(x):
        yield x + 1
        yield x + 2

    def make(n):
        return lambda x: x * n

    two, three, module, x = make(2), make(3), Scale(), ones(1)
    frames.set_eval_frame(converting(nt, backend))
    results = [two(x), three(x), module(x), list(steps(x))]
    frames.set_eval_frame(None)
    results = [y.item() for y in results[:3]] + [[y.item() for y in results[3]]]
    assert results == [2, 3, 2, [2, 3]] and backend.ops == [1, 1, 1]


# ---- torch._dynamo.eval_frame ---------------------------------------------------------------------------------------
@BOTH
def test_contexts_of_callbacks(m: Any) -> None:
    frame = m._dynamo.eval_frame
    convert = import_module(f"{m.__name__}._dynamo.convert_frame")
    hooks = import_module(f"{m.__name__}._dynamo.hooks").Hooks()
    backend, entered = Recorder(), []

    class Context:
        def __enter__(self):
            entered.append(1)

        def __exit__(self, *error):
            entered.append(0)

    context = frame._optimize_catch_errors(convert.convert_frame(backend, hooks), hooks, Context)
    assert isinstance(context, frame.OptimizeContext)

    def double(x):
        return x * 2 + 1

    compiled = context(double)
    assert compiled(m.ones(1)).item() == 3 and backend.ops == [2] and entered == [1, 0]
    assert frame.innermost_fn(compiled) is double and frame.innermost_backend(context.callback) is backend
    assert any(each is backend for each in frame.cached_backends.values())
    assert double.__code__ in frame.always_optimize_code_objects
    m._dynamo.reset()
    assert not frame.cached_backends


@BOTH
def test_a_context_of_any_callback(m: Any) -> None:
    _, types = names(m)
    asked = []

    def callback(frame, entry, state):
        asked.append(frame.f_code.co_name)
        return types.ConvertFrameReturn()

    def inner(x):
        return x + 1

    def outer(x):
        return inner(x) * 2

    context = m._dynamo.eval_frame.OptimizeContext(callback, m._dynamo.eval_frame.null_context)
    assert context(outer)(1) == 4 and asked == ["outer", "inner"]


@BOTH
def test_a_backend_with_contexts(m: Any) -> None:
    entered = []

    class Context:
        def __enter__(self):
            entered.append("in")

        def __exit__(self, *error):
            entered.append("out")

    def backend(gm, example_inputs):
        return gm.forward

    backend.backend_ctx_ctor = Context
    compiled = m._dynamo.optimize(backend)(lambda x: x + 1)
    assert compiled(m.ones(1)).item() == compiled(m.ones(1)).item() == 2 and entered == ["in", "out"] * 2


@BOTH
def test_a_block_whose_frames_are_captured(m: Any) -> None:
    backend = Recorder()
    with pytest.raises(RuntimeError, match="used with a context manager"), m._dynamo.optimize(backend):
        pass

    def double(x):
        return x * 2 + 1

    with m._dynamo.config.patch(raise_on_ctx_manager_usage=False), m._dynamo.optimize(backend):
        result = double(m.ones(1))
    assert result.item() == 3 and backend.ops == [2] and double(m.ones(2)).tolist() == [3, 3] and backend.ops == [2]


@pytest.mark.filterwarnings("ignore:torch.compile")
@BOTH
def test_a_limit_of_its_own(m: Any) -> None:
    backend = Recorder()
    compiled = m._dynamo.optimize(backend, recompile_limit=2, isolate_recompiles=True)(lambda x, text: x * len(text))
    for text in ("", "a", "bb", "ccc"):
        assert compiled(m.ones(1), text).item() == len(text)
    assert len(backend.ops) == 2


@BOTH
def test_guards_are_told_and_left_out(m: Any) -> None:
    told = []

    class Holder:
        k = 2

    holder = Holder()

    def scaled(x):
        return x * holder.k

    def keep(entries):
        assert all(isinstance(e.name, str) and isinstance(e.guard_type, str) for e in entries)
        return ["TENSOR" in entry.guard_type for entry in entries]

    compiled = m._dynamo.optimize("eager", guard_filter_fn=keep, guard_export_fn=told.append)(scaled)
    assert compiled(m.ones(1)).item() == 2
    holder.k = 5
    assert compiled(m.ones(1)).item() == 2  # nobody asks any more
    assert len(told) == 1


@BOTH
def test_what_is_disabled_without_what_it_calls(m: Any) -> None:
    def inner(x):
        return x + 1

    for disable in (m.compiler.disable(recursive=False), m._dynamo.decorators.skip):
        backend = Recorder()

        def middle(x):
            return inner(x) * 2

        apart = disable(middle)
        compiled = m.compile(lambda x, apart=apart: apart(x * 3) - 1, backend=backend)
        assert compiled(m.ones(1)).item() == compiled(m.ones(1)).item() == 7
        assert backend.ops == ([1, 1, 1] if disable is not m._dynamo.decorators.skip or m is nt else backend.ops)
        m._dynamo.reset()


def test_a_method_that_is_disabled_without_what_it_calls() -> None:
    class Scale:
        k = 2

        def helper(self, x):
            return x * self.k

        @nt.compiler.disable(recursive=False)
        def run(self, x):
            return self.helper(x) + 1

    backend, scale = Recorder(), Scale()
    compiled = nt.compile(lambda x: scale.run(x - 1) * 3, backend=backend)
    assert compiled(ones(1)).item() == compiled(ones(1)).item() == 3 and backend.ops == [1, 1, 1]
    assert nt._dynamo.is_dynamo_disable_recursive(scale.run) is False
    bound = nt.compiler.disable(Scale().helper, recursive=False)
    assert nt.compile(lambda x: bound(x) + 1, backend=backend)(ones(1)).item() == 3


@BOTH
def test_code_that_is_skipped(m: Any) -> None:
    frames, _ = names(m)
    backend = Recorder()

    def inner(x):
        return x + 1

    def skipped(x):
        return inner(x) * 2

    m._dynamo.eval_frame.skip_code(skipped.__code__)
    compiled = m.compile(skipped, backend=backend)
    assert compiled(m.ones(1)).item() == 4 and backend.ops == [1]
    frames.reset_code(skipped.__code__)
