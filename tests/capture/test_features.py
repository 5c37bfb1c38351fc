"""Every case of features.py: compiled equals eager in result and in what it leaves, as one graph, call after call."""

import io
import sys
import warnings

import narthex as torch
import pytest
from narthex import _C

from . import features, features_breaks, features_flow  # noqa: F401  (these add cases to features)
from .conftest import THROUGH, compiled, run_graph

IDS = [row[0].__name__ for row in features.CASES]
BREAK_IDS = [row[0].__name__ for row in features.BREAKS]


def plain(value, seen=()):
    """A value as numbers and strings, so that two runs can be compared."""
    if isinstance(value, torch.Tensor):
        return "tensor", value.tolist(), value.requires_grad, str(value.dtype)
    if isinstance(value, dict):
        return type(value).__name__, [(key, plain(part, seen)) for key, part in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [plain(part, seen) for part in value]
    if isinstance(value, set):
        return sorted(value)
    if hasattr(value, "__dict__") and not isinstance(value, type) and not callable(value) and id(value) not in seen:
        return type(value).__name__, plain(dict(vars(value)), (*seen, id(value)))
    return repr(value) if isinstance(value, (int, float, str, bool, type(None))) else type(value).__name__


def outcome(function, make, scale):
    """What a call gives, leaves and prints."""
    arguments = make(scale)
    out, real = io.StringIO(), sys.stdout
    sys.stdout = out
    try:
        result = function(*arguments)
    finally:
        sys.stdout = real
    return plain(result), plain(list(arguments)), out.getvalue(), torch.is_grad_enabled()


@pytest.mark.parametrize("function, make, graphs", features.CASES, ids=IDS)
@pytest.mark.parametrize("backend", [run_graph, "narthex"], ids=["interpreted", "engine"])
@THROUGH
def test_case(function, make, graphs, backend, through):
    capture = compiled(function, through, backend=backend, fullgraph=True)
    for scale in (1, 2, 3, 1):
        assert outcome(capture, make, scale) == outcome(function, make, scale)
    assert len(capture.graphs) == graphs


@pytest.mark.parametrize("function, make, graphs", features.CASES, ids=IDS)
def test_stopped_at_every_instruction(function, make, graphs, stop_at):
    expected = [outcome(function, make, scale) for scale in (1, 2)]
    for n in [*range(1, 40), *range(40, 400, 9)]:
        stop_at(n)
        capture = compiled(function, backend=run_graph)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # after eight compilations: eager
            for scale in (1, 2):
                assert outcome(capture, make, scale) == expected[scale - 1], f"stopped at {n}"


@pytest.mark.parametrize("function, make, code, line", features.BREAKS, ids=BREAK_IDS)
@THROUGH
def test_break(function, make, code, line, through):
    told = []
    capture = compiled(function, through, backend=run_graph)
    _C.set_capture_log(lambda event, **info: told.append(info) if event == "break" else None)
    try:
        for scale in (1, 2, 1):
            assert outcome(capture, make, scale) == outcome(function, make, scale)
    finally:
        _C.set_capture_log(None)
    assert code in [info["code"] for info in told]
    file = function.__code__.co_filename
    with open(file) as source:
        lines = source.read().splitlines()
    # The frames around it end there as well: of a module that calls it, Module.__call__.
    mine = [info for info in told if info["code"] == code and info["filename"] == file]
    assert line in lines[mine[0]["line"] - 1]
    assert mine[0]["reason"] and mine[0]["mend"]
    whole = compiled(function, backend=run_graph, fullgraph=True)
    if function in features.BY_ELEMENTS:
        for scale in (1, 2, -1, 1):
            assert outcome(whole, make, scale) == outcome(function, make, scale)
        return
    with pytest.raises(_C.Unsupported, match=r"how to mend it: \w+"):
        outcome(whole, make, 1)
