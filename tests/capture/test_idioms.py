"""What libraries do with Python's own types inside a compiled function: one graph each, as eager, for several calls."""

import collections  # noqa: F401 - the expressions use them
import enum
import functools
import itertools  # noqa: F401
import operator  # noqa: F401
import sys  # noqa: F401
import types
import weakref

import narthex as torch
import pytest
from narthex import nn

from .conftest import ramp, same

F = nn.functional
torch.as_tensor, torch.asarray, torch.finfo, torch.iinfo  # noqa: B018 - loads their modules


class Kind(enum.Enum):
    A = "a"
    B = "b"


class Name(str, enum.Enum):  # noqa: UP042 - as programs have it
    A = "a"
    B = "b"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Meta(type):
    @property
    def power(cls):
        return 3


class WithMeta(metaclass=Meta):
    class Inner:
        pass


class Lazy:
    @functools.cached_property
    def value(self):
        return 3


@functools.lru_cache
def remembered(n, kind=None):
    return {"n": n + 1, "list": [n, 2]}


def generator(x):
    yield x
    yield x * 2


def passes(x):
    return x


TENSORS = {"a": ramp(2, 2), "b": ramp(2, 2) + 1}
BY_KIND, BY_TUPLE = {Kind.A: 2, Kind.B: 3}, {(1, 2): 3, (Kind.A, int): 5}
BY_NAME = {Name.A: 2, "b": 3}
MODULES = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])
LINEAR = nn.Linear(2, 2)
SPACE = types.SimpleNamespace(scale=2, deep=types.SimpleNamespace(scale=3))
WEAK = weakref.ref(LINEAR)
EXPRESSIONS = """
sum(TENSORS.values()) + x
max({"a": 1, "b": 2}.values()) * x
sum(map(lambda m: m.weight, MODULES)) + x
sum(generator(x))
sum(v * 2 for v in TENSORS.values())
[a + b for a, b in zip(TENSORS.values(), [x, x])][1]
[k * v for k, (n, v) in enumerate(TENSORS.items())][1] + x
functools.reduce(lambda a, b: a + b, map(passes, TENSORS.values())) + x
{k: x for k in "ab"}["b"]
[len(c) for c in "a\u00e9"] and x
torch.tensor([1.0, 2.0]) + x
torch.tensor(3) * x
torch.tensor([[1, 2], [3, 4]], dtype=torch.float64) + x
torch.tensor([1.0, 2.0]).mul_(x[0])
x.new_tensor([1.0, 2.0]) + x
torch.as_tensor(x) + 1
torch.as_tensor([[1.0, 2.0], [3.0, 4.0]]).sum() * x
torch.as_tensor([x.shape], dtype=torch.long) + x.sum()
torch.asarray([1.0, 2.0]).sum() + torch.as_tensor(x.shape[0]) * x
x * len(int.__module__ + list.__name__ + dict.__qualname__)
x.view(torch.Size([4]))
x.clamp(min=torch.finfo(x.dtype).min, max=torch.iinfo(torch.int32).max)
x.to(torch.promote_types(x.dtype, torch.float64))
x * SPACE.scale * SPACE.deep.scale
x * BY_KIND[Kind.A]
x * BY_KIND.get(Kind.B, 1)
x * BY_TUPLE[(1, 2)] * BY_TUPLE[(Kind.A, int)]
x * BY_NAME["a"] * BY_NAME[Name.A]
x if Name.A == "a" and Name.B != "a" else x * 2
x * Level.HIGH if Level.LOW < Level.HIGH else x
x * {Kind.A: 4}[Kind.A]
x if isinstance(3, int | float) and not isinstance("a", int | float) else x * 2
remembered(3)["n"] * x + remembered(3)["list"][1]
remembered(4, kind=Kind.A)["n"] * x
x * Lazy().value
F.__dict__["relu"](x) * vars(SPACE)["scale"]
nn.ReLU()(x)
nn.Sequential(nn.ReLU(), nn.Tanh())(x)
[m for m in MODULES[1:]][0](x)
x * len(WithMeta.Inner.__name__ + WithMeta.Inner.__qualname__)
x * len(WithMeta.Inner.__mro__) * WithMeta.power
x * len(WithMeta.__module__)
WEAK()(x)
x if sys.version_info >= (3, 8) else x * 2
x * len(list(itertools.combinations_with_replacement([1, 2], 2)))
x if "1".isnumeric() and "a".isalnum() and "a".translate({97: 98}) == "b" else x * 2
x if x.grad is None else x * 2
x if x.grad_fn is None else x * 2
x.data + 1
F.silu(x.clone(), inplace=True)
x * len(bytearray(3))
operator.iadd(x.clone(), 1) * operator.imul(2, 3)
x * len(list(itertools.groupby([1, 1, 2])))
[x * key + len(list(group)) for key, group in itertools.groupby([1, 1, 2])][0]
x * sum(itertools.tee([1, 2])[0])
collections.OrderedDict(a=x)["a"]
""".strip().splitlines()
SOURCES = {text: "def function(x):\n    return " + text for text in EXPRESSIONS}


@pytest.mark.parametrize("text", EXPRESSIONS)
@pytest.mark.parametrize("backend", ["eager", "narthex"])
def test_is_one_graph(text, backend):
    exec(SOURCES[text], globals())
    function = globals()["function"]
    compiled = torch.compile(function, fullgraph=True, backend=backend)
    for scale in (1, 2, 3):
        x = ramp(2, 2) * scale
        assert same(compiled(x), function(x.clone()))
    assert compiled.entries == 1


def test_a_member_of_an_enumeration_is_guarded():
    compiled = torch.compile(
        lambda x, kind: x * BY_KIND[kind] if kind != Name.A else x, fullgraph=True, backend="eager"
    )
    assert [compiled(torch.ones(1), kind).tolist() for kind in (Kind.A, Kind.B, Name.A)] == [[2], [3], [1]]
    assert compiled.entries == 3


def test_a_gradient_that_comes_is_seen():
    w = torch.ones(2).requires_grad_()
    compiled = torch.compile(lambda w: w * 1 if w.grad is None else w * 2, backend="eager")
    assert compiled(w).tolist() == [1, 1]
    w.sum().backward()
    assert compiled(w).tolist() == [2, 2] and "has a gradient" in compiled.recompiles[0]
    w.grad = None
    assert compiled(w).tolist() == [1, 1]


def test_a_cached_property_is_held_by_an_object_that_existed():
    lazy = Lazy()
    compiled = torch.compile(lambda x, o: x * o.value, fullgraph=True, backend="eager")
    assert compiled(torch.ones(1), lazy).tolist() == [3] and vars(lazy) == {"value": 3}
    lazy.value = 5
    assert compiled(torch.ones(1), lazy).tolist() == [5]
    assert compiled(torch.ones(1), Lazy()).tolist() == [3]


def test_what_lru_cache_remembers_is_made_once():
    calls = []

    @functools.lru_cache
    def counted(n):
        calls.append(n)
        return n * 2

    compiled = torch.compile(lambda x, n: x * counted(n), fullgraph=True, backend="eager")
    for n in (1, 1, 2, 1, 2):
        assert compiled(torch.ones(1), n).tolist() == [2 * n]
    assert calls == [1, 2]


def test_a_weak_reference_that_dies_is_seen():
    class Box:
        scale = 3

    box = Box()
    weak = weakref.ref(box)
    compiled = torch.compile(lambda x: x if weak() is None else x * weak().scale, backend="eager")
    assert compiled(torch.ones(1)).tolist() == [3]
    del box
    assert compiled(torch.ones(1)).tolist() == [1]


def test_a_constant_tensor_is_made_anew():
    compiled = torch.compile(lambda: torch.tensor([1.0, 2.0]), fullgraph=True)
    compiled().fill_(7)
    assert compiled().tolist() == [1, 2]


GLOBAL = 1


def test_variables_are_deleted():
    def deletes(x):
        global GLOBAL
        GLOBAL = 3
        k = GLOBAL
        del GLOBAL

        def inner():
            return k  # noqa: F821 - it is deleted below

        y = x * inner()
        del k
        try:
            inner()
        except NameError:
            y = y + 1
        return y

    compiled = torch.compile(deletes, backend="eager")
    for _ in range(3):
        globals()["GLOBAL"] = 1
        assert compiled(torch.ones(1)).tolist() == [4]
        assert "GLOBAL" not in globals()


def test_a_class_that_is_made_inside_ends_the_graph_at_its_making():
    def makes(x):
        class Inner:
            k = 3

        return x * Inner.k

    compiled = torch.compile(makes, backend="eager")
    for _ in range(3):
        assert compiled(torch.ones(1)).tolist() == [3]


class Watched:
    stores: list = []

    @property
    def x(self):
        return vars(self)["x"]

    @x.setter
    def x(self, value):
        Watched.stores.append(value)


def test_what_a_dict_was_given_by_hand_is_not_stored_through_its_property():
    def makes(x):
        made = Watched()
        vars(made)["x"] = 3
        return x * made.x, made

    compiled = torch.compile(makes, backend="eager")
    for _ in range(3):
        value, made = compiled(torch.ones(1))
        assert value.tolist() == [3] and vars(made) == {"x": 3} and Watched.stores == []
