"""Exceptions of compiled functions: tracebacks, and errors that only the data tells."""

import sys
import traceback
import types

import narthex as torch
import pytest
from narthex import _C, nn

from .conftest import compiled, ones, run_graph, same

BACKENDS = pytest.mark.parametrize("backend", [run_graph, "narthex"], ids=["interpreted", "engine"])


class Manager:
    def __init__(self):
        self.seen = []

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.seen += [kind.__name__, trace is None, bool(trace)]
        return True


class Reader(Manager):
    def __exit__(self, kind, value, trace):
        self.seen.append(trace.tb_lineno)
        return True


def asks_exception(x):
    try:
        raise ValueError(3)
    except ValueError as e:
        return x + (1 if e.__traceback__ is None else 2), e.__traceback__ is not None


def asks_exc_info(x):
    try:
        x = x + 1
        raise ValueError(3)
    except ValueError:
        return x + (1 if sys.exc_info()[2] is None else 2)


def asks_manager(x):
    manager = Manager()
    with manager:
        x = x * 2
        raise KeyError("k")
    return x + len(manager.seen), manager.seen


def reads_line(x):
    try:
        x = x + 1
        raise ValueError(3)
    except ValueError as e:
        return x + e.__traceback__.tb_lineno


def reads_line_in_manager(x):
    manager = Reader()
    with manager:
        x = x * 2
        raise KeyError("k")
    return x + manager.seen[0]


def formats(x):
    try:
        x = x + 1
        raise ValueError(3)
    except ValueError:
        return x * 2, traceback.format_exc()


def keeps(x):
    try:
        raise ValueError(3)
    except ValueError as e:
        kept = e.__traceback__
    return x + 1, kept.tb_frame.f_code.co_name


def raises_again(x):
    try:
        try:
            raise ValueError(3)
        except ValueError as e:
            x = x + (e.__traceback__ is not None)
            raise KeyError(4) from e
    except KeyError as e:
        return x + len(e.args), e.__cause__.__traceback__ is None, e.__context__ is e.__cause__


@BACKENDS
@pytest.mark.parametrize(
    "function",
    [asks_exception, asks_exc_info, asks_manager, reads_line, reads_line_in_manager, formats, keeps, raises_again],
    ids=lambda function: function.__name__,
)
def test_tracebacks(function, backend):
    capture = compiled(function, backend=backend)
    for scale in (1, 2):
        assert same(capture(ones(2) * scale), function(ones(2) * scale))


def test_asking_whether_there_is_one_keeps_the_graph():
    for function in (asks_exception, asks_exc_info, asks_manager):
        compiled(function, backend=run_graph, fullgraph=True)(ones(2))


# ---- errors that the data raises, when the graph runs

TABLE = nn.Embedding(3, 2)


class State:
    def __init__(self):
        self.log = []


def catches(x, index, state):
    state.log.append("before")
    y = x + 1
    try:
        z = TABLE(index)
        state.log.append("behind")
    except IndexError as error:
        state.log.append(type(error).__name__)
        return y * 3
    return y + z.sum() * 0


def does_not_catch(x, index, state):
    state.log.append("before")
    x.add_(1)
    z = TABLE(index)  # the user's line
    state.log.append("behind")
    return x + z.sum() * 0


def writes_around(x, index, state):
    x[0] = 5
    with torch.no_grad():
        x += TABLE(index)[0]  # the user's line
        x[1:].mul_(2)
        x += TABLE(index - 1)[0]  # the user's line
    return x * 2


def writes_and_catches(x, index, state):
    x.add_(1)
    try:
        return torch.arange(3.0)[index] + x
    except IndexError:
        return x * 3


@pytest.mark.parametrize("grads", [True, False])
@pytest.mark.parametrize("function", [catches, does_not_catch, writes_around, writes_and_catches])
@pytest.mark.parametrize("mode", ["max-autotune", "reduce-overhead"])
def test_errors_of_the_data(function, mode, grads, monkeypatch):
    """What is written before the error is written once, also where no backward keeps it from being written at once."""
    monkeypatch.setattr(TABLE.weight, "requires_grad", grads)
    capture = compiled(function, mode=mode)
    for index in (1, 1, 7, 2, 0, 7):
        outcomes = []
        for call in (capture, function):
            x, state = ones(2), State()
            try:
                result = call(x, torch.tensor([index]), state).tolist()
            except IndexError as error:
                result = str(error)
                lines = [frame.line for frame in traceback.extract_tb(error.__traceback__)]
                assert any("the user's line" in line for line in lines), lines
            outcomes.append((result, x.tolist(), state.log))
        assert outcomes[0] == outcomes[1], index


def test_errors_of_the_data_behind_a_break():
    def function(x, index, state):
        x = x * 2
        print(end="")
        return catches(x, index, state)

    capture = compiled(function)
    for index in (1, 7, 1, 7):
        results = []
        for call in (capture, function):
            state = State()
            results.append((call(ones(2), torch.tensor([index]), state).tolist(), state.log))
        assert results[0] == results[1]


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_errors_of_the_data_behind_random_numbers(mode):
    def function(x, index):
        noise = torch.rand(2) + torch.randn(2)
        try:
            return x[index] * noise.sum()
        except IndexError:
            return x * torch.rand(2) + noise

    capture, results = torch.compile(function, mode=mode), []
    for call in (capture, function):
        torch.manual_seed(5)
        results.append([call(ones(2), torch.tensor([k])).tolist() for k in (1, 7, 1, 7)])
    assert results[0] == results[1]


# ---- debuggers


def watch(frame, lines):
    """As a debugger begins: from here on the frame's lines are told."""

    def trace(at, event, value):
        if event == "line" and at.f_code.co_name == "debugged":
            lines.append((at.f_lineno, sorted(at.f_locals)))
        return trace

    frame.f_trace = trace
    sys.settrace(trace)


def debugged(x, lines):
    y = x + 1
    watch(sys._getframe(), lines)
    z = y * 2
    w = z - 1
    return w


def test_a_debugger_that_begins_inside():
    said = []
    for call in (debugged, compiled(debugged)):
        lines = []
        try:
            assert call(ones(1), lines).tolist() == [3]
        finally:
            sys.settrace(None)
        said.append(lines)
    assert said[1] == said[0] and len(said[0]) == 3


def test_a_module_without_a_name():
    module = types.ModuleType("module")
    del module.__name__

    def asks(x):
        try:
            return x + module.missing
        except AttributeError as error:
            return x * len(str(error))

    log = []
    _C.set_capture_log(lambda event, **info: log.append(event))
    try:
        assert compiled(asks)(ones(1)).tolist() == asks(ones(1)).tolist()
    finally:
        _C.set_capture_log(None)
    assert "opcode" in log
