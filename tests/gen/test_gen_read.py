"""The reader and the checker of .op files: what they take, and what they refuse with which words at which place."""

import random
from pathlib import Path

import pytest

from gen.check import check_world
from gen.model import World
from gen.read import read
from gen.syntax import tokenize
from gen.write_all import write_all

HARD = Path(__file__).with_name("hard.op")

HEAD = "op f(self: T, other: T) -> T\n"
GOOD = HEAD + "  point  self + other\n  grad   self: g; other: g\n  forms  function\n  cases  shapes broadcast\n"


def problems(tmp_path, text, write=True):
    """Texts of all problems of one file, with the helpers and operators of ops/ beside it."""
    ops = Path(__file__).resolve().parent.parent.parent / "ops"
    path = tmp_path / "x.op"
    path.write_text(text, encoding="utf-8")
    world = World([path, *ops.rglob("*.op")], tmp_path)
    if not world.problems:
        check_world(world)
    if write and not world.problems:
        write_all(world, ops, ["base"])
    return world.show_problems()


def test_hard_entries_parse():
    """The entries that the language was designed by, 46 of them, are read whole."""
    file = read("hard.op", HARD.read_text(encoding="utf-8"))
    assert [p.text(file.lines) for p in file.problems] == []
    names = {entry.name for entry in file.entries}
    assert len(file.entries) == 47 and len(file.functions) == 5 and len(file.groups) == 2
    assert {
        "add.Tensor",
        "div.Tensor_mode",
        "where.self",
        "cat",
        "max.dim",
        "native_layer_norm",
        "index.Tensor",
        "index_put_",
        "nonzero",
        "embedding",
        "native_dropout",
        "convolution",
        "empty.memory_format",
        "arange.start_step",
        "copy_",
        "lstm.input",
    } <= names
    convolution = next(e for e in file.entries if e.name == "convolution_backward")
    assert [p.type.base for p in convolution.params][:3] == ["T", "T", "T"] and len(convolution.results) == 3
    assert [t for rule in convolution.one("grad").value["rules"] for t in rule["targets"]] == [
        "grad_output",
        "input",
        "weight",
    ]


def test_hard_entries_are_refused_clearly(tmp_path):
    """What the generator cannot write yet is said, with its place, and nothing is written."""
    file = read("hard.op", HARD.read_text(encoding="utf-8"))
    said = []
    for name in ("lstm.input",):
        entry = next(e for e in file.entries if e.name == name)
        last = min(
            [e.at.line for e in file.entries + file.functions + file.groups if e.at.line > entry.at.line],
            default=len(file.lines) + 1,
        )
        text = "\n".join(file.lines[entry.at.line - 1 : last - 1]) + "\n"
        said.append(problems(tmp_path, text))
        assert said[-1].startswith("x.op:"), said[-1]
        assert all("not yet generated" in text for text in said), said


def test_a_good_entry_passes(tmp_path):
    assert problems(tmp_path, GOOD) == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (HEAD + "  forms  function\n  cases  shapes point\n", "x.op:1:4: error: f has no meaning"),
        (HEAD + "  points self\n", "x.op:2:3: error: unknown row 'points'"),
        (
            HEAD + "  forms  function\n  point  self\n",
            "x.op:3:3: error: 'point' stands before 'forms' in the order of rows",
        ),
        (HEAD + "  point  self\n  as     other\n  cases  shapes point\n", "x.op:3:3: error: f has two meanings"),
        (
            HEAD + "  point  self + other\n  grad   self: g\n  cases  shapes broadcast\n",
            "x.op:1:15: error: f: input 'other' has neither 'grad' nor 'nograd'",
        ),
        (
            HEAD + "  point  self + othr\n  grad   self: g; other: g\n  cases  shapes broadcast\n",
            "x.op:2:17: error: no name 'othr' here (in scope: other, self)",
        ),
        (
            HEAD + "  point  self + other\n  grad   self: g; othr: g\n  cases  shapes broadcast\n",
            "x.op:3:19: error: f has no parameter 'othr' (self, other)",
        ),
        (
            HEAD + "  types  T in all complex\n  point  self*other\n  grad   self: g*other; other: g*conj(self)\n"
            "  cases  shapes broadcast\n",
            "factor 'other' of g lacks conj: f admits complex",
        ),
        (
            HEAD + "  point  self*other\n  grad   self: g*g; other: g\n  cases  shapes broadcast\n",
            "x.op:3:17: error: the formula is not linear in g",
        ),
        (
            HEAD + "  point  self*other\n  grad   self: other; other: g\n  cases  shapes broadcast\n",
            "x.op:3:16: error: the formula is not linear in g: g does not occur",
        ),
        (HEAD + "  kernel fast\n  grad   self: g; other: g\n", "x.op:1:4: error: f has no cases"),
        (
            HEAD + "  kernel fast\n  ref    fast\n  grad   self: g; other: g\n  cases  shapes broadcast\n",
            "x.op:3:3: error: ref fast is the kernel itself and compares nothing: leave it out",
        ),
        (
            HEAD
            + "  kernel fast when T == float32\n  kernel slow\n  grad   self: g; other: g\n  cases  shapes broadcast\n",
            "x.op:2:3: error: f has 2 kernels and no 'ref' to compare them with",
        ),
        (
            HEAD
            + "  kernel fast\n  kernel slow\n  ref    slow\n  grad   self: g; other: g\n  cases  shapes broadcast\n",
            "x.op:3:3: error: kernel slow is never reached: fast takes every call",
        ),
        (
            "op f(self) -> view(self)\n  view   size = self.size; stride = self.stride\n  grad   self: g\n"
            "  cases  call (x[3])\n",
            "x.op:1:4: error: f is a view and has no 'inverse'",
        ),
        (
            HEAD + "  point  self + other\n  grad   self: nonsense(g); other: g\n  cases  shapes broadcast\n",
            "no operator is called 'nonsense'",
        ),
        (
            HEAD + "  point  self + other\n  grad   self: mm(g); other: g\n  cases  shapes broadcast\n",
            "no overload of mm takes these arguments; mm: 'mat2' is missing",
        ),
        (
            HEAD + "  point  self + nothing(other)\n  grad   self: g; other: g\n  cases  shapes broadcast\n",
            "no element function 'nothing'",
        ),
        (
            HEAD + "  point  self - other\n  grad   self: g; other: g\n  cases  shapes broadcast\n",
            "x.op:2:15: error: '-' does not exist for bool",
        ),
        (
            HEAD + "  point  self +\n  cases  shapes broadcast\n",
            "x.op:2:16: error: expected an expression, found 'end of row'",
        ),
        (HEAD + "  close  float16 1e-2\n", "x.op:2:22: error: a tolerance needs its reason in quotes"),
        (
            "op f_(self!: T) -> self\n  kernel fill(self, 0)\n  grad   self: zero\n  cases  call (x[3])\n",
            "x.op:1:4: error: f_ ends in '_': it needs a 'mutate' row",
        ),
        (GOOD + GOOD, "error: operator 'f' is defined twice"),
        ("row x\n", "x.op:1:1: error: expected op, fn, checks or family, found 'row'"),
        (GOOD.replace("shapes broadcast", "beta in 1 2"), "f has no parameter 'beta' (self, other)"),
        ("#" + "x" * 120 + "\n" + GOOD, "x.op:1:111: error: the line has 121 columns, 110 are allowed"),
    ],
)
def test_refused(tmp_path, text, expected):
    assert expected in problems(tmp_path, text)


def test_error_shows_line_and_caret(tmp_path):
    shown = problems(tmp_path, HEAD + "  point  self + othr\n  grad   self: g; other: g\n  cases  shapes broadcast\n")
    _, line, caret = shown.split("\n")[:3]
    assert line == "  point  self + othr" and caret == " " * 16 + "^"


def test_all_problems_are_shown_up_to_twenty(tmp_path):
    text = "".join(f"op f{k}(self: T) -> T\n  pint  self\n" for k in range(25))
    shown = problems(tmp_path, text)
    assert shown.count("error:") == 20 and shown.endswith("... and 5 more")


def test_damaged_entries_are_reported():
    """A token left out or doubled gives problems with places, never a crash of the reader."""
    text = HARD.read_text(encoding="utf-8")
    tokens, _ = tokenize("hard.op", text)
    chance = random.Random(7)
    for _ in range(60):
        token = chance.choice(tokens)
        end = token.offset + len(token.text)
        kept = text[: token.offset] + token.text * chance.choice((0, 0, 2)) + text[end:]
        for problem in read("hard.op", kept).problems:
            assert problem.at.line >= 1 and problem.message
