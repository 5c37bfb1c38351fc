"""Every program of programs.py: compiled equals eager, with each backend, and stopped at every instruction."""

import pytest

from . import programs
from .conftest import THROUGH, compiled, run_graph, same

IDS = [row[0].__name__ for row in programs.ROWS]


def outcome(function, make):
    """What a call gives and leaves: result, arguments after it, what was printed."""
    programs.printed.clear()
    arguments = make()
    result = function(*arguments)
    left = [getattr(argument, "n", None) or getattr(argument, "tolist", int)() for argument in arguments]
    return result, left, list(programs.printed)


def assert_same_outcome(capture, function, make):
    got, expected = outcome(capture, make), outcome(function, make)
    assert same(got[0], expected[0])
    assert got[1:] == expected[1:]


@pytest.mark.parametrize("function, make, graphs", programs.ROWS, ids=IDS)
@pytest.mark.parametrize("backend", [run_graph, "narthex"], ids=["interpreted", "engine"])
@THROUGH
def test_equals_eager(function, make, graphs, backend, through):
    capture = compiled(function, through, backend=backend)
    for _ in range(3):
        assert_same_outcome(capture, function, make)
    if graphs is not None:
        assert len(capture.graphs) == graphs


@pytest.mark.parametrize("function, make, graphs", programs.ROWS, ids=IDS)
def test_stopped_at_every_instruction(function, make, graphs, stop_at):
    for n in range(1, 60):
        stop_at(n)
        capture = compiled(function, backend=run_graph)
        for _ in range(3):
            assert_same_outcome(capture, function, make)
        stop_at(0)
        assert_same_outcome(capture, function, make)
