"""The reader and the checker of .op files: what they take, and what they refuse with which words at which place."""

import random
from functools import cache
from pathlib import Path

import pytest

from gen.check import check_world
from gen.main import read_folder
from gen.model import World
from gen.read import read
from gen.syntax import tokenize
from gen.write_all import Files, write_siblings

ROOT = Path(__file__).resolve().parent.parent.parent
ATTENTION = ROOT / "ops/matrix/attention.op"

HEAD = "op f(self: T, other: T) -> T\n"
GOOD = HEAD + "  point  self + other\n  grad   self: g; other: g\n  forms  function\n  cases  shapes broadcast\n"


FAMILY = """op f(self: T, n: int[1]) with k = 1, back = mul -> like(self): T
  also   f2(... n: int[2]) with k = 2, back = div
  types  T in float
  kernel fs(self, n, k, result)
  grad   self: back(g, 2)
  forms  function
  cases  call (x[3], [1]); call f2(x[3], [1,2])
"""


PART = """op f(self: T, src: Tensor, dim: dim(self)) -> like(self): T
  check  src.size == part else "src is no part"
  elements self; select(dim, 0): src
  grad   self: zero; src: select(g, dim, 0)
  cases  call (x[3,4], x[4], 0)
"""


@cache
def ops():
    """The helpers and operators that an entry may name."""
    return read_folder(ROOT / "ops")


def problems(text, write=True):
    """Texts of all problems of one file with ops/ beside it; its entries alone are checked and written."""
    world = World([read("x.op", text), *ops()])
    mine = [sibling for sibling in world.siblings if sibling.at.path == "x.op"]
    if not world.problems:
        check_world(world)
    if write and not world.problems:
        write_siblings(world, mine, Files(), ["base"])
    return world.show_problems()


def test_a_good_entry_passes():
    assert problems(GOOD) == ""
    assert problems(FAMILY) == ""


def test_an_entry_of_several_operators():
    """Each has the rows with what its `with` says, and the cases that name it."""
    world = World([read("x.op", FAMILY), *ops()])
    assert not world.problems, world.show_problems()
    first, second = (entry for entry in world.operators if entry.at.path == "x.op")
    assert [entry.name for entry in (first, second)] == ["f", "f2"]
    assert [entry.params[1].type.list_of for entry in (first, second)] == [1, 2]
    assert [entry.binds["k"].value for entry in (first, second)] == [1, 2]
    texts = [entry.one("grad").value["rules"][0]["text"] for entry in (first, second)]
    assert texts == ["mul(g, 2)", "div(g, 2)"]
    assert [len(entry.one("cases").value) for entry in (first, second)] == [1, 1]
    assert [entry.name for entry in world.entries if entry.at.path == "x.op"] == ["f"]
    files = Files()
    write_siblings(world, [sibling for sibling in world.siblings if sibling.at.path == "x.op"], files, ["base"])
    kernels = files.kernels.text()
    assert "nx_value_int(1)" in kernels and "nx_value_int(2)" in kernels


def test_elements():
    """What lies in the result, and in a part of it, whose size and place the view's own rule says."""
    world = World([read("x.op", PART), *ops()])
    assert not world.problems, world.show_problems()
    files = Files()
    facts = write_siblings(world, [sibling for sibling in world.siblings if sibling.at.path == "x.op"], files, ["base"])
    assert not world.problems, world.show_problems()
    assert facts["f"]["kernel"] == "nx__run_f"
    lines = [
        "nx_copy_cast(out[0].array, in[0].array);",
        "NX_TRY(nx_part_of(out[0].array, nx__shape_select_int, (nx_value[]){out[0], in[2], nx_value_int(0)}, &part));",
        "nx_copy_cast(&part.array, in[1].array);",
    ]
    kernels = files.kernels.text()
    assert sorted(lines, key=kernels.index) == lines
    assert "nx__shape_select_int, (nx_value[]){NX_VALUE_NONE, in[2], nx_value_int(0)}, &part));" in files.meta.text()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (HEAD + "  forms  function\n  cases  shapes point\n", "x.op:1:4: error: f has no meaning"),
        (GOOD.replace("forms  function", "forms  function copy"), "x.op:4:19: error: f is no view"),
        (GOOD.replace("forms  function", "forms  function alias"), "x.op:4:19: error: another name is missing"),
        (HEAD + "  points self\n", "x.op:2:3: error: unknown row 'points'"),
        (HEAD + "  scan   (s = 0) step s + x done s\n", "x.op:2:3: error: unknown row 'scan'"),
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
        (HEAD + "  kernel fast\n  grad   auto\n  cases  call (x[3])\n", "'grad auto' derives what a 'point' row says"),
        (
            HEAD + "  point  atan2(self, other)\n  grad   auto\n  cases  shapes broadcast\n",
            "x.op:3:3: error: 'atan2' has no derivative in ops/prim.op: write the formula",
        ),
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
            HEAD + "  point  self + nowhere(other)\n  grad   self: g; other: g\n  cases  shapes broadcast\n",
            "no element function 'nowhere'",
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
        (
            "op f(self) -> as\n  as     self + self\n  forms  method inplace\n  cases  call (x[3])\n",
            "x.op:3:3: error: f is made of other operators: its in-place form is an entry f_ of its own",
        ),
        (GOOD + GOOD, "error: operator 'f' is defined twice"),
        (
            PART.replace("  grad", "  kernel fs\n  grad"),
            "x.op:4:3: error: f says what lies in its result and needs no kernel",
        ),
        (
            PART.replace("-> like(self): T", "-> (like(self): T, like(self): T)"),
            "x.op:3:3: error: 'elements' is of one result, f has 2",
        ),
        (PART.replace("select(dim, 0)", "flip(dim, 0)"), "x.op:3:18: error: 0 views are called so, one is needed"),
        (
            PART.replace("select(dim, 0)", "select(0)"),
            "x.op:3:18: error: select.int takes 2 arguments behind what is viewed",
        ),
        (
            PART.replace("select(dim, 0)", "select(dim, src.ndim)"),
            "x.op:3:33: error: an argument of the view is one of the entry's, or a whole number",
        ),
        (
            PART.replace("0): src", "0): dim"),
            "x.op:3:34: error: elements are undefined, those of a tensor, or a number",
        ),
        (FAMILY.replace("k = 2, ", ""), "x.op:2:10: error: f2 does not say what 'k' is"),
        (FAMILY.replace("call f2", "call f3"), "x.op:7:28: error: 'f3' is no operator of this entry (f, f2)"),
        (FAMILY.replace("= div", "= nonsense"), "no operator is called 'nonsense'"),
        (FAMILY.replace("... n:", "... m:"), "x.op:2:17: error: f has no parameter 'm' (self, n)"),
        ("row x\n", "x.op:1:1: error: expected op, fn, checks or prim, found 'row'"),
        (GOOD.replace("shapes broadcast", "beta in 1 2"), "f has no parameter 'beta' (self, other)"),
        ("#" + "x" * 120 + "\n" + GOOD, "x.op:1:111: error: the line has 121 columns, 110 are allowed"),
    ],
)
def test_refused(text, expected):
    assert expected in problems(text)


def test_error_shows_line_and_caret():
    shown = problems(HEAD + "  point  self + othr\n  grad   self: g; other: g\n  cases  shapes broadcast\n")
    _, line, caret = shown.split("\n")[:3]
    assert line == "  point  self + othr" and caret == " " * 16 + "^"


def test_all_problems_are_shown_up_to_twenty():
    text = "".join(f"op f{k}(self: T) -> T\n  pint  self\n" for k in range(25))
    shown = problems(text)
    assert shown.count("error:") == 20 and shown.endswith("... and 5 more")


def test_damaged_entries_are_reported():
    """A token left out or doubled gives problems with places, never a crash of the reader."""
    text = ATTENTION.read_text(encoding="utf-8")
    tokens, _ = tokenize("x.op", text)
    chance = random.Random(7)
    for _ in range(60):
        token = chance.choice(tokens)
        end = token.offset + len(token.text)
        kept = text[: token.offset] + token.text * chance.choice((0, 0, 2)) + text[end:]
        for problem in read("x.op", kept).problems:
            assert problem.at.line >= 1 and problem.message
