"""Programs in two pieces: a compiled function that ends at any of its statements gives what it gives uncompiled."""

from __future__ import annotations

import ast
import inspect
import random

import narthex as torch
import pytest
from narthex.utils import _pytree

from . import pieces_made, pieces_python, pieces_state

PROGRAMS = pieces_state.PROGRAMS + pieces_made.PROGRAMS + pieces_python.PROGRAMS
BREAK = ast.parse("torch._dynamo.graph_break()").body


def statements(block: list) -> list[tuple[list, int]]:
    """The places before which a statement may stand: a block and an index there."""
    found = []
    for index, statement in enumerate(block):
        found.append((block, index))
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            continue
        parts = [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]
        parts += [handler.body for handler in getattr(statement, "handlers", [])]
        parts += [case.body for case in getattr(statement, "cases", [])]
        for part in parts:
            found += statements(part)
    return found


def in_pieces(function):
    """The function as it is, and with a break before each of its statements."""
    source = inspect.getsource(function)
    yield "whole", function
    for place in range(len(statements(ast.parse(source).body[0].body))):
        tree = ast.parse(source)
        block, index = statements(tree.body[0].body)[place]
        label = f"before {ast.unparse(block[index])!r}"
        block[index:index] = BREAK
        space = dict(function.__globals__)
        exec(compile(ast.fix_missing_locations(tree), f"<{function.__name__} {label}>", "exec"), space)
        yield label, space[function.__name__]


def history(function, wrap):
    """What two calls give, and what they leave in the model and the batch."""
    torch.manual_seed(0)
    random.seed(0)
    model, found = pieces_state.Model(), []
    called = wrap(function)
    for call in range(2):
        torch.manual_seed(call + 1)
        x = torch.randn(3, 4)
        result = called(model, x)
        found.append([result, x, *model.parameters(), *(p.grad for p in model.parameters()), *model.buffers()])
        found.append([model.calls, list(model.log), model.training, torch.is_grad_enabled(), torch.get_default_dtype()])
    return [list(leaf) if type(leaf).__name__ == "deque" else leaf for leaf in _pytree.tree_leaves(found)]


def check(expected, found, where: str) -> None:
    assert len(expected) == len(found), where
    for number, (a, b) in enumerate(zip(expected, found)):
        assert type(a) is type(b), (where, number, a, b)
        if isinstance(a, torch.Tensor):
            facts = [(t.shape, t.dtype, t.stride(), t.requires_grad, t.is_leaf) for t in (a, b)]
            assert facts[0] == facts[1], (where, number)
            assert torch.allclose(a.detach(), b.detach(), rtol=1e-5, atol=1e-6, equal_nan=True), (where, number, a, b)
        elif isinstance(a, float):
            assert a == pytest.approx(b), (where, number)
        elif not isinstance(a, list):
            assert a == b, (where, number)


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda function: function.__name__)
@pytest.mark.filterwarnings("ignore")
def test_pieces(function, mode):
    expected = history(function, lambda f: f)
    for label, piece in in_pieces(function):
        found = history(piece, lambda f: torch.compile(f, mode=mode))
        check(expected, found, f"{function.__name__} {label}")


# How each call differs from the one before: the batch, and what is set around the call.
CALLS = [
    (lambda: torch.randn(3, 4), None),
    (lambda: torch.randn(5, 4), None),
    (lambda: torch.randn(4, 7).t()[:, :4], None),
    (lambda: torch.randn(4, 3).t(), None),
    (lambda: torch.randn(3, 4, requires_grad=True), None),
    (lambda: torch.randn(6, 4), "no_grad"),
    (lambda: torch.randn(3, 4, requires_grad=True) * 2, None),
    (lambda: torch.randn(9, 4)[::3], None),
    (lambda: torch.randn(1, 4), "eval"),
    (lambda: torch.randn(3, 4).double(), None),
    (lambda: torch.randn(3, 4), "autocast"),
]
# Eager mode refuses to write a part of split() with gradients; compiled functions do it (docs/differences.md).
DIFFER = {"about_cat"}


def around(setting: str | None):
    if setting == "no_grad":
        return torch.no_grad()
    return torch.autocast("cpu", torch.bfloat16, enabled=setting == "autocast")


def changing(function, wrap) -> list:
    """What each of CALLS gives and leaves; the type of its exception, if it ends so."""
    torch.manual_seed(0)
    random.seed(0)
    model, found = pieces_state.Model(), []
    called = wrap(function)
    for call, (make, setting) in enumerate(CALLS):
        torch.manual_seed(call + 1)
        x = make()
        model.train(setting != "eval")
        try:
            with around(setting):
                result = called(model, x)
        except (ValueError, RuntimeError, TypeError, LookupError, NameError) as error:
            result = type(error).__name__
            torch.set_default_dtype(torch.float32)
            torch.set_grad_enabled(True)
        left = [
            x,
            *model.parameters(),
            *(p.grad for p in model.parameters()),
            *model.buffers(),
            model.calls,
            list(model.log),
        ]
        found.append(
            [list(leaf) if type(leaf).__name__ == "deque" else leaf for leaf in _pytree.tree_leaves([result, left])]
        )
        for parameter in model.parameters():
            parameter.requires_grad_(True)
    return found


@pytest.mark.parametrize("options", [{}, {"dynamic": True}, {"mode": "reduce-overhead"}], ids=str)
@pytest.mark.parametrize(
    "function", [f for f in PROGRAMS if f.__name__ not in DIFFER], ids=lambda function: function.__name__
)
@pytest.mark.filterwarnings("ignore")
def test_calls_that_differ(function, options):
    expected = changing(function, lambda f: f)
    found = changing(function, lambda f: torch.compile(f, **options))
    for call, (a, b) in enumerate(zip(expected, found)):
        check(a, b, f"{function.__name__}, call {call}")
