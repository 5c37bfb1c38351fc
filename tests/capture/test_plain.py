"""Plain mode: what ends a graph is done for real, in the function's own frame; whoever looks on sees what eager shows.

A debugger or profiler that begins in the middle of a call sees the rest of it, and nothing that the program did not do.
"""

import re
import sys
import traceback
from pathlib import Path

import narthex as torch
import pytest

from .conftest import ramp

ROOT = Path(__file__).parents[2]


def inner(x):
    y = x * 2
    return y + 1


def begin(look):
    sys._getframe(1).f_trace = look
    sys.settrace(look)


class Debugger:
    def __init__(self, look):
        self.look = look

    def __enter__(self):
        begin(self.look)
        sys._getframe(1).f_trace = self.look
        return 2

    def __exit__(self, *error):
        sys.settrace(None)
        return True


class Attribute:
    def __init__(self, look):
        self.__dict__["look"] = look

    def __getattr__(self, name):
        print(end="")
        begin(self.look)
        return 3

    def __setattr__(self, name, value):
        print(end="")
        begin(self.look)

    def __add__(self, other):
        print(end="")
        begin(self.look)
        return other

    __lt__ = __getitem__ = __add__


def traced_from_a_call(x, look):
    y = x + 1
    sys.settrace(look)
    z = inner(y)
    sys.settrace(None)
    return z * 3


def traced_in_its_own_frame(x, look):
    y = x + 1
    begin(look)
    z = y * 2
    try:
        z = inner(z)
        raise ValueError("q")
    except ValueError:
        z = z + 1
    return z


def traced_in_a_callee(x, look):
    def helper(x):
        x = x + 1
        sys.settrace(look)
        return inner(x)

    y = helper(x)
    sys.settrace(None)
    return y + 1


def traced_in_a_loop(x, look):
    y = x + 1
    for k in range(3):
        if k == 1:
            begin(look)
        y = inner(y) * k
    sys.settrace(None)
    return y


def traced_by_a_context(x, look):
    y = x + 1
    with Debugger(look) as k:
        y = inner(y) * k
    return y - 1


def traced_by_an_attribute(x, look):
    y = x + Attribute(look).name
    y = inner(y)
    sys.settrace(None)
    Attribute(look).name = 4
    y = inner(y)
    sys.settrace(None)
    y = Attribute(look) + y
    y = inner(y)
    sys.settrace(None)
    y = Attribute(look)[y]
    return inner(y)


def profiled_from_a_call(x, look):
    sys.setprofile(look)
    y = inner(x)
    sys.setprofile(None)
    return y * 2


def calls_with_an_unpacked_list(x, look):
    y = x + 1
    sys.settrace(*(look,))
    y = inner(y)
    sys.settrace(*(None,))
    return y


FUNCTIONS = [value for name, value in list(globals().items()) if name.startswith(("traced", "profiled", "calls"))]


def events_of(function, compiled):
    events, results = [], []

    def look(frame, event, arg):
        code = frame.f_code
        if code.co_filename == __file__ and not event.startswith("c_") and code.co_name not in ("events_of", "begin"):
            events.append((code.co_name, event, frame.f_lineno))
        return look

    run = torch.compile(function, backend="eager") if compiled else function
    for scale in range(3):
        try:
            results.append(run(ramp(2, 2) * scale, look).tolist())
        finally:
            sys.settrace(None)
            sys.setprofile(None)
    return results, [event for event in events if event[0] != "__exit__"]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_debugger_sees_what_eager_shows(function):
    assert events_of(function, True) == events_of(function, False)


def test_the_frame_is_the_functions_own():
    def function(x):
        y = x + 1
        frame = sys._getframe()
        seen.append(
            (frame.f_code is function.__code__, frame.f_locals["y"] is y, sorted(locals()) == sorted(frame.f_locals))
        )
        return y * 2

    seen = []
    run = torch.compile(function, backend="eager")
    for _ in range(3):
        run(ramp(2, 2))
    assert seen == [(True, True, True)] * 3


def failing(x, hook):
    y = x + 1
    try:
        y = y * 2
        hook(1)
    except ValueError as error:
        y = y * 3 + len(error.args)
    with Debugger(None) as k:
        hook(2)
        y = y * 100
    z = y + k
    hook(3)
    return z


@pytest.mark.parametrize("fails_at", [(), (1,), (2,), (3,), (1, 2), (1, 2, 3)])
def test_errors_of_an_instruction_go_to_the_frames_handlers(fails_at):
    def hook(n):
        print(end="")
        if n in fails_at:
            raise ValueError(n)

    def outcome(function):
        try:
            return function(ramp(2, 2), hook).tolist()
        except ValueError as error:
            frames = [(entry.name, entry.lineno) for entry in traceback.extract_tb(error.__traceback__)]
            code = [frame.f_code is failing.__code__ for frame, _ in traceback.walk_tb(error.__traceback__)]
            return error.args, [frame for frame in frames if frame[0] in ("failing", "hook")], any(code)

    compiled = torch.compile(failing, backend="eager")
    for _ in range(3):
        assert outcome(compiled) == outcome(failing)


def test_only_one_folder_looks_into_frames():
    allowed = {"cpython.h", "none.h", "steps314.c", *(f"py{v}.{end}" for v in (311, 312, 313, 314) for end in "ch")}
    looks = re.compile(r"localsplus\b|->slots\b|\.slots\[|nxpy_slot\b")
    files = [path for path in (ROOT / "py").glob("*/*.[ch]") if looks.search(path.read_text())]
    assert {path.name for path in files} <= allowed


@pytest.mark.skipif(sys.version_info < (3, 14), reason="template strings are of CPython 3.14")
def test_template_strings():
    names = {}
    body = "y = x * 2; t = t'{y.shape[0]!r:>3} of {y}'; return y + 1, t.interpolations, t.strings"
    exec(f"def function(x): {body}", names)

    def outcome(function):
        y, parts, strings = function(ramp(2))
        told = [(p.expression, p.conversion, p.format_spec) for p in parts]
        return y.tolist(), parts[0].value, parts[1].value.tolist(), told, strings

    capture = torch.compile(names["function"], backend="eager")
    for _ in range(3):
        assert outcome(capture) == outcome(names["function"])
