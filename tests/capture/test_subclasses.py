"""Classes that derive from dict, list, tuple and numbers; numbers of numpy: as eager, for several calls."""

import dataclasses
import enum
import functools  # noqa: F401 - the expressions use it
import operator
import re
from collections import OrderedDict

import narthex as torch
import pytest

from .conftest import ramp, same

numpy = pytest.importorskip("numpy")


class Plain(OrderedDict):
    pass


class Output(OrderedDict):
    """As libraries return them: pairs that are attributes too."""

    def __init__(self, **fields):
        super().__init__()
        for name, value in fields.items():
            self[name] = value

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        super().__setattr__(key, value)

    def __getitem__(self, key):
        return self.to_tuple()[key] if isinstance(key, int) else dict(self.items())[key]

    def to_tuple(self):
        return tuple(self[key] for key in self.keys())


@dataclasses.dataclass
class Fields(OrderedDict):
    loss: object = None
    logits: object = None

    def __post_init__(self):
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is not None:
                self[field.name] = value


class Missing(dict):
    def __missing__(self, key):
        return key * 2


class Listed(list):
    def total(self):
        return sum(self)


class Pair(tuple):
    def swapped(self):
        return Pair((self[1], self[0]))


class Count(int):
    pass


class Tagged(int):
    def __new__(cls, value, tag):
        made = super().__new__(cls, value)
        made.tag = tag
        return made


class Text(str):
    pass


class Flags(enum.IntFlag):
    A = 1
    B = 2
    C = 4


OUTPUT, LISTED, COUNT, TAGGED, TEXT = Plain(a=ramp(2, 2), b=2), Listed([1, 2]), Count(3), Tagged(3, 5), Text("ab")
PATTERN = re.compile("a(b)")
SCALE, TIMES = numpy.float32(2.5), numpy.int64(2)
FIRST, NAMED, CALLED = operator.itemgetter("a"), operator.attrgetter("shape"), operator.methodcaller("add", 1)
EXPRESSIONS = """
Plain(a=x, b=x + 1)["b"]
Plain(a=x, b=x + 1)
Output(loss=x.sum(), logits=x)
Output(loss=x.sum(), logits=x).logits + Output(loss=x)[0]
Output(loss=x.sum(), logits=x).to_tuple()
Fields(loss=x.sum(), logits=x)
Fields(logits=x).logits * len(Fields(logits=x))
[value * 2 for value in Plain(a=x, b=x).values()]
x * OUTPUT["b"] + OUTPUT["a"]
x if "a" in OUTPUT and "c" not in OUTPUT else x * 2
x * len(OUTPUT) + sum(OUTPUT.values())
Missing(a=x)["a"] * Missing(a=x)[3]
Listed([x, x + 1])
Listed([x, x + 1]).total() + Listed([x])[0]
x * len(LISTED) * LISTED[1] * LISTED.total()
Pair((x, x + 1)).swapped()
Pair((x, x + 1)).swapped()[0]
x * COUNT + COUNT
x * TAGGED.tag + TAGGED
x * Flags.A.value + Flags.B
x * len(TEXT) if TEXT == "ab" else x
x * len(PATTERN.match("abc").group(1)) if re.match("a", "ab") and not re.match("b", "a") else x
x * SCALE + TIMES
x * float(SCALE) * int(numpy.prod(x.shape)) * float(numpy.sqrt(4))
x.reshape(TIMES, -1) * SCALE.item()
FIRST({"a": x}) + operator.itemgetter("b")({"b": 2})
CALLED(x) * len(NAMED(x))
x * sorted([2, 1], key=functools.cmp_to_key(lambda a, b: a - b))[0]
x * len(dict.fromkeys("ab", 0)) * int.from_bytes(b"a", "big")
x * len(passes.__code__.co_varnames)
x if "OUTPUT" in globals() and "x" in locals() else x * 2
x * len(globals()["LISTED"]) + locals()["x"]
""".strip().splitlines()


def passes(x):
    return x


def kinds(value):
    """What `same` does not compare: classes and attributes."""
    if isinstance(value, dict):
        attributes = {name: kinds(part) for name, part in vars(value).items()} if hasattr(value, "__dict__") else {}
        return type(value), list(value.keys()), [kinds(part) for part in value.values()], attributes
    if isinstance(value, (list, tuple)):
        return type(value), [kinds(part) for part in value]
    return value.tolist() if isinstance(value, torch.Tensor) else value


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_is_one_graph(text):
    space = dict(globals())
    exec("def function(x):\n    return " + text, space)
    function = space["function"]
    compiled = torch.compile(function, fullgraph=True, backend="eager")
    for scale in (1, 2, 3):
        x = ramp(2, 2) * scale
        assert kinds(compiled(x)) == kinds(function(x))
    assert compiled.entries == 1


def test_what_existed_before_is_guarded():
    def function(x, of):
        return x * of["b"] + len(of)

    compiled = torch.compile(function, fullgraph=True, backend="eager")
    for of in (Plain(b=2), Plain(b=3), Plain(b=3, c=1), {"b": 3}, Missing(b=4), Plain(c=1, b=3)):
        for _ in range(2):
            assert same(compiled(ramp(2), of), function(ramp(2), of))


@pytest.mark.parametrize(
    "values", [(Count(1), Count(2), 2), (Text("a"), Text("bc")), tuple(map(numpy.float32, (1, 2, -0.0, 0)))]
)
def test_values_are_guarded(values):
    def function(x, value):
        return x * len(value) if isinstance(value, str) else x * value

    compiled = torch.compile(function, fullgraph=True, backend="eager")
    for value in values * 2:
        assert kinds(compiled(ramp(3) + 1, value)) == kinds(function(ramp(3) + 1, value))
        assert str(compiled(ramp(3) + 1, value)) == str(function(ramp(3) + 1, value))  # a zero's sign too


def test_attributes_of_values_are_guarded():
    def function(x, value):
        return x * value.tag + value

    compiled = torch.compile(function, fullgraph=True, backend="eager")
    value = Tagged(2, 3)
    for tag in (3, 4, 4, 3):
        value.tag = tag
        assert same(compiled(ramp(2), value), function(ramp(2), value))


def test_a_flag_that_is_made_on_the_way():
    def function(x):
        return x * int(Flags.A | Flags.C) + (Flags.B | Flags.C).value

    compiled = torch.compile(function, backend="eager")
    for _ in range(3):
        assert same(compiled(ramp(2)), ramp(2) * 5 + 6)


def test_a_tuple_with_an_attribute_keeps_it():
    def function(x):
        made = Pair((x, x + 1))
        made.tag = 3
        return made

    compiled = torch.compile(function, backend="eager")
    for _ in range(3):
        assert compiled(ramp(2)).tag == 3


def test_a_pattern_is_guarded():
    def function(x, pattern):
        return x * 2 if pattern.match("ab") else x

    compiled = torch.compile(function, fullgraph=True, backend="eager")
    for text in ("a", "b", "a", "[ab]"):
        assert same(compiled(ramp(2), re.compile(text)), function(ramp(2), re.compile(text)))


def test_an_array_of_numpys_ends_the_graph():
    def function(x):
        made = numpy.add(numpy.float64(1), [1.0, 2.0])
        made[0] += 1
        return x * float(made[0])

    compiled = torch.compile(function, backend="eager")
    for _ in range(3):
        assert same(compiled(ramp(2)), function(ramp(2)))


def test_writes_to_an_existing_one_are_the_programs():
    def function(x, of, listed):
        of["c"] = x + 1
        listed += [x]
        return x * len(of) + len(listed)

    compiled = torch.compile(function, backend="eager")
    mine, theirs = (Plain(a=1), Listed()), (Plain(a=1), Listed())
    for _ in range(3):
        assert same(compiled(ramp(2), *mine), function(ramp(2), *theirs))
    assert kinds(mine[0]) == kinds(theirs[0]) and kinds(mine[1]) == kinds(theirs[1])
