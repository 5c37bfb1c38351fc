"""What programs do inside a compiled function, one feature a case, each captured as one graph (BREAKS: ends the graph).

A case is a function and what makes its arguments, which are made anew for every call; `scale` changes the values of the
tensors, so that a second call shows what was computed and what was kept.
"""

import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import itertools
import logging
import math
import operator
import random
import typing
import warnings

import narthex as torch
import narthex.nn.functional as F
import numpy
from narthex import nn

from .conftest import ones, ramp

CASES = []  # (function, make(scale) -> arguments, graphs)
BREAKS = []  # (function, make, code of the break, text of the line it ends at)
torch.autocast  # noqa: B018 - loads its module
FACTOR = 3
COUNT = 0
NAMES = ["a", "b"]
TABLE = {"a": 2, "b": 5}
WEIGHTS = [ones(2, 2), ramp(2, 2)]


def one(scale):
    return (ramp(2, 2) * scale,)


def trained(scale):
    return ((ramp(2, 2) * scale).requires_grad_(),)


def case(make=one, graphs=1):
    return lambda function: CASES.append((function, make, graphs)) or function


def breaks(code, line, make=one):
    return lambda function: BREAKS.append((function, make, code, line)) or function


# ---- closures, arguments, functions


@case()
def closure_read(x):
    k = 3

    def inner(y):
        return y * k + x

    return inner(x)


@case()
def closure_written(x):
    total = 0

    def add(k):
        nonlocal total
        total = total + k
        return total

    add(1)
    return x + add(2) + total


def make_counter():
    count = [0]
    total = 0

    def count_up(x):
        nonlocal total
        total = total + 1
        count.append(total)
        return x * total + len(count)

    return count_up


@case(lambda scale: (ramp(2, 2) * scale, make_counter()))
def closure_of_the_caller_written(x, count_up):
    return count_up(x)


def defaults(x, k=2, *rest, shift=1, **named):
    for value in rest:
        x = x + value
    return x * k + shift + named.get("extra", 0)


@case()
def default_arguments(x):
    return defaults(x)


@case()
def star_arguments(x):
    values, named = [4, 5], {"shift": 2, "extra": 3}
    return defaults(x, 1, *values, **named) + defaults(x, *[2], shift=4)


@case(lambda scale: (ramp(2, 2) * scale, 2, 3))
def star_parameters(x, *rest, **named):
    return x * rest[0] + rest[1] + len(named)


@case()
def lambdas(x):
    return (lambda f, y: f(y))(lambda y, k=2: y * k, x)


@case()
def partial(x):
    twice = functools.partial(defaults, k=2)
    return twice(x) + functools.partial(twice, x, shift=5)()


HALF = functools.partial(defaults, k=0.5, shift=0)


@case()
def partial_of_the_module(x):
    return HALF(x) + 1


def shouted(function):
    @functools.wraps(function)
    def inner(*args, **kwargs):
        return function(*args, **kwargs) * 2

    return inner


@case()
def decorated(x):
    @shouted
    def inner(y):
        """Says something."""
        return y + 1

    return inner(x), inner.__name__, inner.__doc__


@case()
def recursion(x):
    def power(y, n):
        return y if n == 0 else power(y * 2, n - 1)

    return power(x, 4)


@case()
def reduces(x):
    return functools.reduce(operator.add, [x, x * 2], x) + operator.mul(x, 3)


# ---- generators and comprehensions


@case()
def comprehensions(x):
    parts = [x + k for k in range(4) if k % 2]
    return parts, {k: v * 2 for k, v in zip("ab", parts)}, sorted({k % 2 for k in range(5)})


@case()
def generator_expression(x):
    return sum(x * k for k in range(3)), max(len(name) for name in ("a", "bcd")), any(k > 1 for k in range(5))


@case()
def generator_function(x):
    def count(n):
        for k in range(n):
            got = yield x + k
            if got:
                yield x * got

    walk = count(3)
    first = next(walk)
    return first, walk.send(7), list(walk)


@case()
def yield_from(x):
    def inner():
        yield x
        return x * 5

    def outer():
        result = yield from inner()
        yield result
        yield from [x + 1, x + 2]

    return list(outer())


@case()
def generator_left_early(x):
    def count():
        k = 0
        while True:
            yield k
            k += 1

    for k in count():
        if k == 3:
            break
    return x + k


@case()
def unpacked_generator(x):
    q, k, v = (part * 2 for part in (x, x + 1, x + 2))
    return q @ k + v


# ---- text


@case()
def f_strings(x):
    name = f"{x.shape[0]}-{x.dtype!r:>14}|{math.pi:.2f}|{[1, 'a']}|{x.dim()=}"
    return x + len(name), name


@case()
def string_methods(x):
    text = "a,b;c".replace(";", ",").split(",")[1].upper().join(["-", "+"])
    old = "%s %d" % ("a", 2)  # noqa: UP031 - the feature
    return x + len(text), "{} {k:>3}".format("q", k=1), old, text.startswith("-"), "b" in text


# ---- exceptions


@case()
def caught(x):
    try:
        x = x + 1
        raise ValueError("bad", 3)
    except (KeyError, ValueError) as error:
        return x * error.args[1] + len(str(error.args[0]))


@case()
def caught_in_the_caller(x):
    def fails(y):
        if y.dim() == 2:
            raise KeyError("none")
        return y

    try:
        y = fails(x)
    except KeyError:
        y = x - 1
    else:
        y = x * 0
    finally:
        x = x + 1
    return x + y


class Refused(ValueError):
    def __init__(self, message, code):
        super().__init__(message)
        self.code = code


@case()
def exception_of_ones_own(x):
    try:
        try:
            raise Refused("no", 4)
        except KeyError:
            return x
        except Refused as error:
            code = error.code
            raise RuntimeError("outer") from error
    except RuntimeError as error:
        return x + code, str(error), type(error).__name__, isinstance(error.__cause__, Refused)


@case()
def lookup_that_fails(x):
    try:
        return x * TABLE["none"]
    except KeyError:
        pass
    try:
        return x + [1, 2][5]
    except IndexError:
        pass
    try:
        return x + x.no_such_attribute
    except AttributeError:
        return x + 7


@case()
def torch_error_caught(x):
    try:
        return x + x.new_empty(7) if hasattr(x, "new_empty") and False else x @ x[0, :1]
    except RuntimeError:
        return x + 2


@case()
def finally_on_return(x):
    order = []

    def inner(y):
        try:
            return y + 1
        finally:
            order.append("done")

    return inner(x), order


@case()
def loop_with_try(x):
    for k in range(4):
        try:
            if k == 1:
                continue
            if k == 3:
                break
            x = x + k
        finally:
            x = x * 2
    return x


@case()
def asserts(x):
    assert x.shape[0] == 2, f"{x.shape[0]} rows"
    assert isinstance(x, torch.Tensor)
    return x + 1


# ---- with


@case(trained)
def no_grad_inside(x):
    y = x * 2
    with torch.no_grad():
        z = y * 3
    return y, z, z + y


@case(trained)
def enable_grad_inside(x):
    with torch.no_grad():
        z = x * 3
        with torch.enable_grad():
            y = x * 2
    return y, z


@case(trained)
def set_grad_enabled_inside(x):
    with torch.set_grad_enabled(False):
        y = x * 2
    torch.set_grad_enabled(False)
    z = x * 4
    torch.set_grad_enabled(True)
    return y, z, x * 3


@torch.no_grad()
def without_grad(x):
    return x * 2


@case(trained)
def no_grad_as_decorator(x):
    return without_grad(x), x + 1


@case(trained)
def no_grad_left_by_exception(x):
    try:
        with torch.no_grad():
            y = x * 2
            raise ValueError
    except ValueError:
        return y, x * 2


@case()
def null_context(x):
    with contextlib.nullcontext(5) as k:
        return x + k


@case()
def autocast_off(x):
    with torch.autocast("cpu", enabled=False):
        return x @ x


@contextlib.contextmanager
def shifted(box, k):
    box.append(k)
    try:
        yield k + 1
    except KeyError:
        box.append("caught")
    finally:
        box.append("left")


@case()
def context_manager_of_a_generator(x):
    box = []
    with shifted(box, 2) as k:
        x = x + k
    with shifted(box, 3):
        raise KeyError
    return x, box


class Scope:
    def __init__(self, swallows=False):
        self.depth, self.swallows = 0, swallows

    def __enter__(self):
        self.depth += 1
        return self

    def __exit__(self, kind, value, traceback):
        self.depth -= 1
        return self.swallows and kind is ValueError


@case(lambda scale: (ramp(2, 2) * scale, Scope()))
def context_managers_of_ones_own(x, outer):
    with outer as a, Scope(True) as b:
        x = x + a.depth + b.depth
        raise ValueError
    return x + outer.depth


@case(trained)
def exit_stack(x):
    box = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(shifted(box, 1))
        stack.callback(box.append, "called")
        y = x * 2
    return y, x * 2, box


# ---- kinds and attributes


@case()
def asks_kinds(x):
    kinds = isinstance(x, torch.Tensor), isinstance(3, (int, str)), callable(ramp), issubclass(bool, int)
    kinds += (type(x).__name__,)
    return x + len(kinds), kinds


class Config:
    n_embd = 4
    dropout = 0.0


@case()
def attribute_functions(x):
    config = Config()
    for name in ("bias", "gain"):
        setattr(config, name, 2)
    x = x * getattr(config, "n_embd", 0) + getattr(config, "none", 3) + config.bias + config.gain
    return x, hasattr(config, "none"), hasattr(x, "no")


class Everything:
    scale = 2

    def __init__(self, k):
        self.k = k
        self._level = 1

    @property
    def level(self):
        return self._level + self.k

    @level.setter
    def level(self, value):
        self._level = value * 10

    @classmethod
    def make(cls, k):
        return cls(k + 1)

    @staticmethod
    def plain(x):
        return x + 1

    def __getattr__(self, name):
        if name.startswith("auto_"):
            return len(name)
        raise AttributeError(name)

    def __call__(self, x):
        return x * self.k

    def __len__(self):
        return self.k

    def __bool__(self):
        return True

    def __getitem__(self, key):
        return key * 2

    def __contains__(self, key):
        return key == self.k

    def __add__(self, other):
        return self.k + other

    def __radd__(self, other):
        return other + self.k

    def __eq__(self, other):
        return isinstance(other, Everything) and other.k == self.k

    def __hash__(self):
        return self.k


@case(lambda scale: (ramp(2, 2) * scale, Everything(3)))
def properties(x, o):
    o.level = 4
    return x + o.level + o.scale


@case(lambda scale: (ramp(2, 2) * scale, Everything(3)))
def class_and_static_methods(x, o):
    return Everything.make(2)(x) + o.make(3).k + o.plain(x) + Everything.plain(x)


@case(lambda scale: (ramp(2, 2) * scale, Everything(3)))
def special_methods(x, o):
    if o and 3 in o and o == Everything(3) and o != Everything(4):
        x = x + len(o) + o[5]
    return o(x) + (o + 1) + (1 + o) + o.auto_value, hasattr(o, "none")


class Base:
    def __init__(self, k):
        self.k = k

    def step(self, x):
        return x * self.k

    @classmethod
    def name(cls):
        return cls.__name__


class Derived(Base):
    def __init__(self, k):
        super().__init__(k + 1)

    def step(self, x):
        return super().step(x) + 1

    @classmethod
    def name(cls):
        return super().name() + "!"


@case(lambda scale: (ramp(2, 2) * scale, Derived(1)))
def supers(x, o):
    return o.step(x) + Derived(2).step(x), o.name(), super(Derived, o).step(x)


class Slotted:
    __slots__ = ("k", "empty")

    def __init__(self, k):
        self.k = k


@case(lambda scale: (ramp(2, 2) * scale, Slotted(3)))
def slots(x, o):
    o.k = o.k + 1
    return x * o.k * Slotted(2).k, hasattr(o, "empty")


class Kind(enum.Enum):
    SUM = "sum"
    MEAN = "mean"


@case(lambda scale: (ramp(2, 2) * scale, Kind.MEAN))
def enums(x, kind):
    if kind is Kind.MEAN and kind == Kind.MEAN and kind != Kind.SUM:
        return x.mean() + len(kind.value)
    return x.sum()


class Countdown:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        if self.n == 0:
            raise StopIteration
        self.n -= 1
        return self.n


# ---- objects that are made


@dataclasses.dataclass
class Point:
    at: object
    k: int = 3
    tags: list = dataclasses.field(default_factory=list)

    def __post_init__(self):
        self.tags.append(self.k)


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: int
    b: int = 2


@case()
def dataclass_made(x):
    p = Point(x * 2)
    return p.at + p.k, p.tags, Frozen(1) == Frozen(1, 2), Frozen(4).a


@case()
def dataclass_returned(x):
    p = Point(x * 2, k=4)
    return p, [p]


class Pair(typing.NamedTuple):
    first: object
    second: int = 2

    def total(self):
        return self.first + self.second


Triple = collections.namedtuple("Triple", "a b c")


@case()
def named_tuples(x):
    pair = Pair(x + 1)
    a, b = pair
    triple = Triple(1, b=2, c=x)._replace(a=5)
    return pair.total() + a + b + triple.a + triple[1] + triple.c, pair, triple


@case(lambda scale: (Triple(ramp(2, 2) * scale, 2, 3),))
def named_tuple_given(t):
    a, *rest = t
    return a * t.b + t[2] + sum(rest), len(t)


@case()
def simple_object_returned(x):
    box = Base(3)
    box.x = x + 1
    box.me = [box]
    return box.x, box.k, box.me[0] is box


@case()
def ordered_dict(x):
    d = collections.OrderedDict()
    d["b"] = x
    d["a"] = x + 1
    total = 0
    for k, (name, value) in enumerate(d.items()):
        total = total + value * k + len(name)
    return total, list(d)


@case()
def deques(x):
    queue = collections.deque([1, 2], maxlen=3)
    queue.append(3)
    queue.appendleft(0)
    return x + queue.pop() + len(queue), list(queue)


@case()
def default_dict(x):
    d = collections.defaultdict(list)
    d["a"].append(x)
    d["a"].append(x + 1)
    return sum(d["a"]), len(d["none"])


@case()
def sets(x):
    s = {1, 2, 3}
    s.add(5)
    s |= {7, 1}
    s.discard(2)
    return x + len(s) + (3 in s) + (2 in s), sorted(s & {1, 5}), sorted(s), frozenset([1]) <= s


@case()
def copies(x):
    d = {"a": [1, 2], "b": x}
    e = copy.copy(d)
    e["c"] = 3
    e["a"].append(x)
    return x + len(d) + len(e), d["a"], copy.copy([1, x])


# ---- containers of modules


class Layer(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.weight = nn.Parameter(ramp(2, 2))
        self.register_buffer("shift", ones(2))
        self.k = k

    def forward(self, x):
        return torch.mm(x, self.weight) * self.k + self.shift


class Tree(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleDict({"first": Layer(1), "list": nn.ModuleList([Layer(2), Layer(3)])})
        self.params = nn.ParameterList([nn.Parameter(ones(2, 2))])
        self.named = nn.ParameterDict({"w": nn.Parameter(ones(2))})
        self.chain = nn.Sequential(Layer(1), nn.ReLU())

    def forward(self, x):
        x = self.parts["first"](x)
        for layer in self.parts["list"]:
            x = layer(x)
        for name, part in self.parts.items():
            x = x + len(name) + part.training
        for p in self.params:
            x = x + p
        return self.chain(x) + self.parts["list"][-1](x) + len(self.parts) + self.named["w"]


TREE = Tree()
HOOKED = Layer(2)
HOOKED.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
HOOKED.register_forward_hook(lambda module, args, result: result * module.k)


@case()
def module_containers(x):
    return TREE(x)


@case()
def forward_hooks(x):
    return HOOKED(x)


@case()
def module_walks(x):
    for name, p in TREE.named_parameters():
        if p.dim() == 2:
            x = x + p * len(name)
    return x, [name for name, _ in TREE.named_children()], len(list(TREE.modules()))


class Switched(nn.Module):
    def __init__(self):
        super().__init__()
        self.config = Config()
        self.dropout = nn.Dropout(0.0)
        self.steps = 0

    def forward(self, x):
        self.steps += 1
        self.last = self.dropout(x) * self.config.n_embd
        if self.training:
            return self.last + self.steps
        return self.last


@case(lambda scale: (ramp(2, 2) * scale, Switched()))
def module_attributes_written(x, module):
    return module(x) + module(x), module.steps


class Embedder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(5, 4)
        self.norm = nn.LayerNorm(4)
        self.head = nn.Linear(4, 5, bias=False)
        self.tokens.weight = self.head.weight

    def forward(self, tokens, targets=None):
        batch, length = tokens.size()
        assert length <= 8, f"{length} tokens"
        positions = torch.arange(0, length, dtype=torch.long, device=tokens.device)
        x = self.norm(self.tokens(tokens) + positions.view(1, length, 1))
        q, k, v = (t.view(batch, length, 2, 2).transpose(1, 2) for t in (x, x * 2, x + 1))
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        x = (F.softmax(scores, dim=-1) @ v).transpose(1, 2).contiguous().view(batch, length, 4)
        logits = self.head(x)
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)


torch.manual_seed(0)
EMBEDDER = Embedder()


@case(lambda scale: (torch.tensor([[1, 2, scale], [0, 3, 4]]), torch.tensor([[2, 3, 4], [3, 4, -1]])))
def small_language_model(tokens, targets):
    return EMBEDDER(tokens, targets)


# ---- iteration


@case()
def iterators(x):
    for a, b in zip(map(lambda k: k + 1, [1, 2]), filter(lambda k: k > 1, (1, 2, 3))):
        x = x + a * b
    for k, value in enumerate(reversed([x, x + 1])):
        x = x + value * k
    for name in TABLE.keys() | {"c"}:
        x = x + len(name)
    return x + sum(TABLE.values())


@case()
def itertools_used(x):
    for a, b in itertools.product([1, 2], repeat=2):
        x = x + a * b
    for part in itertools.chain([x], itertools.islice(itertools.count(2), 3)):
        x = x + part
    sums, pairs = list(itertools.accumulate([1, 2, 3])), list(itertools.pairwise("abc"))
    return x, sums, pairs, list(itertools.zip_longest([1], [2, 3]))


@case()
def builtins_used(x):
    parts = [x.shape[0], 5, 3]
    numbers = len(parts), min(parts), max(2, 3), sum(parts), sorted(parts, key=lambda k: -k), abs(-2), round(2.6)
    more = all(parts), any([0, ""]), pow(2, 3), list(reversed(parts)), bool([]), int("3"), divmod(7, 2)
    return x + sum(range(1, 10, 3)), numbers, more


@case()
def loops(x):
    for k in range(5):
        if k == 1:
            continue
        if k == 3:
            break
        x = x + k
    else:
        x = x * 0
    for _ in ():
        pass
    else:
        x = x + 10
    while True:
        x = x + 1
        break
    return x


@case(lambda scale: (ramp(2, 2) * scale, None))
def early_return(x, y=None):
    if y is None:
        return x * 2
    return x + y


@case()
def walrus_and_chains(x):
    if (n := x.shape[0]) > 1 and 0 < n <= 5 != n:
        return x * n
    return x


@case(lambda scale: (ramp(2, 2) * scale, {"kind": "scale", "by": 2, "more": (1, 2)}))
def matches(x, action):
    match action:
        case {"kind": "shift"}:
            return x
        case {"kind": "scale", "by": int(k), "more": (a, *rest)} if k > 1:
            x = x * k + a + len(rest)
    match Point(x), x.dim():
        case Point(at=y, k=3), 1 | 2:
            return y + 1
    return x


@case(lambda scale: (ramp(4, 4) * scale,))
def slices(x):
    parts = [1, 2, 3, 4, 5]
    parts[1:3] = [9]
    del parts[0]
    return x[::2, 1:3] + x[-1, None, 2], x[..., 0], parts[::-1], parts[-2:], (1, 2, 3)[1:]


@case()
def unpacking(x):
    first, *middle, last = [1, 2, 3, 4]
    (a, b), c = (x, x + 1), {"k": 2, **TABLE}
    a, b = b, a
    return a * first + b * last + sum(middle), [*middle, *"ab"], c


@case()
def math_functions(x):
    return x * math.sqrt(16) + math.pi + math.floor(2.5), math.cos(0.0), math.isinf(math.inf), math.prod([2, 3])


@case()
def imports(x):
    import math as m
    from math import tau

    return x * m.e + tau


@case()
def dict_methods(x):
    d = {"a": 1}
    d.update(b=2)
    d.setdefault("c", []).append(x)
    gone = d.pop("a")
    e = d | {"z": 1}
    return x + gone + len(d) + d.get("none", 4), list(e), d.get("c")[0], "b" in d, dict(zip("xy", (1, 2)))


@case()
def list_methods(x):
    parts = [3, 1, 2]
    parts.insert(0, 7)
    parts.sort()
    parts.reverse()
    parts += [4]
    parts.remove(1)
    return x + parts.index(2) + parts.count(3), parts, parts.pop(), parts * 2, [x] + [x]


# ---- what existed before is changed


class State:
    def __init__(self):
        self.count, self.seen, self.table, self.tags = 0, [1, 2], {"a": 1}, {1}


@case(lambda scale: (ramp(2, 2) * scale, State()))
def counter_on_an_object(x, state):
    state.count += 1
    state.count = state.count * 2 + 1
    state.result = x * state.count
    del state.tags
    return state.result + state.count, hasattr(state, "tags")


@case(lambda scale: (ramp(2, 2) * scale, State()))
def containers_changed(x, state):
    state.seen.append(x.shape[0])
    state.seen[0] = 5
    state.seen.extend([7, 8])
    state.table["b"] = x * 2
    state.table.pop("a")
    state.tags.add(9)
    return x + len(state.seen) + len(state.table) + sum(state.seen) + len(state.tags)


@case(lambda scale: (ramp(2, 2) * scale, [1]))
def appended_only(x, seen):
    seen.append(x * 2)
    seen += [3]
    return x


@case(lambda scale: (ramp(2, 2) * scale, {"n": 0}))
def aliases_changed(x, d):
    boxes = [d, d]
    boxes[0]["n"] += 1
    boxes[1]["n"] += 1
    return x + d["n"]


@case()
def global_written(x):
    global COUNT
    before, COUNT = COUNT, 5
    x = x + COUNT
    COUNT = before
    return x + COUNT


@case(lambda scale: ((ramp(2, 2) * scale),))
def argument_changed(x):
    x.add_(1)
    x[0] = 7
    y = x.view(4)
    y.mul_(2)
    return x + 1


@case(lambda scale: ((ramp(2, 2) * scale),))
def view_changed(x):
    y = x * 1
    y[:, 1:].add_(5)
    row = y[0]
    row += 1
    return y


@case()
def identity_kept(x):
    part = [x + 1]
    return part, (part, {"p": part}), x


@case()
def tensors_in_lists(x):
    return sum(WEIGHTS) + x, torch.stack([x, *WEIGHTS]), torch.cat(WEIGHTS + [x])


@case()
def conditional_expressions(x):
    a = x if x.dim() == 2 else None
    b = a is not None and x.shape == (2, 2) or None
    return (x + 1 if b else x), not b, None or 3


@case(lambda scale: (ramp(2, 2) * scale, [ramp(2, 2), ones(2, 2)], {"w": ones(2, 2)}))
def tensors_in_arguments(x, parts, named):
    for k, part in enumerate(parts):
        x = x + part * k
    return x @ named["w"], [*parts, x]


@case()
def nested_closures(x):
    def outer(k):
        def middle():
            def inner(y):
                return y * k + FACTOR

            return inner

        return middle()

    return [outer(k)(x) for k in range(2)]


@case(lambda scale: (ramp(2, 2) * scale, Kind.SUM, (1, "a"), None, 2.5, True))
def constants_given(x, kind, pair, nothing, number, flag):
    if flag and nothing is None and pair[1] == "a":
        return x * number + pair[0], kind
    return x


@case()
def class_attributes(x):
    return x * Config.n_embd + Everything.scale, Config.dropout == 0.0, Base.__name__, isinstance(Base(1), Base)


@case(lambda scale: (ramp(2, 2) * scale, Scope()))
def bound_methods(x, scope):
    step = Base(3).step
    parts = list(map(step, [x, x + 1]))
    append = parts.append
    append(x)
    return sum(parts), len(parts)


@case()
def user_iterator(x):
    class_of = Countdown(3)
    return x + sum(class_of), [k for k in Countdown(2)]


@case(trained)
def detached(x):
    y = (x * 2).detach()
    return y + x, y.requires_grad, x.requires_grad, (x * 2).requires_grad


@case()
def dtypes_and_devices(x):
    y = torch.zeros(2, 2, dtype=x.dtype, device=x.device) + torch.ones_like(x)
    return y.to(torch.float64) + x, str(x.device), x.dtype == torch.float32, torch.float16.itemsize


@case()
def globals_and_shadowing(x):
    FACTOR = 7  # noqa: N806 - shadows the module's
    len = max  # noqa: A001
    return x * FACTOR + len(1, 2) + defaults(x)


@case()
def tensor_iterated(x):
    a, b = x
    return a + b, [row * 2 for row in x]


# ---- what ends a graph


@breaks("FUNCTION", 'print("here")')
def prints(x):
    x = x + 1
    print("here")
    return x * 2


@breaks("FUNCTION", "x.sum().item()")
def asks_item(x):
    x = x + x.sum().item()
    return x * 2


@breaks("BRANCH", "if x.sum() > 3:")
def branches_on_data(x):
    if x.sum() > 3:
        return x + 1
    return x * 2


@breaks("FUNCTION", "random.seed(3)")
def draws(x):
    x = x + 1
    random.seed(3)
    return x + random.random()


@breaks("FUNCTION", 'warnings.warn("careful"')
def warns(x):
    x = x + 1
    warnings.warn("careful", stacklevel=1)
    return x * 2


@breaks("ITERATOR", "for part in parts:", lambda scale: (ramp(2, 2) * scale, iter([1, 2])))
def iterator_of_the_caller(x, parts):
    for part in parts:
        x = x + part
    return x


class Closed:
    def __del__(self):
        pass


@breaks("FUNCTION", "Closed()")
def makes_what_is_finalised(x):
    x = x + 1
    Closed()
    return x * 2


@functools.lru_cache
def cached(k):
    return k + 1


@breaks("FUNCTION", "cached(3)")
def cached_function(x):
    return x + cached(3)


@breaks("REBUILD", "walk = ")
def generator_across_a_break(x):
    walk = (x + k for k in range(3))
    first = next(walk)
    print("here")
    return first + sum(walk)


@breaks("STORE", "Config.dropout = ")
def class_written(x):
    Config.dropout = 0.5
    x = x + Config.dropout
    Config.dropout = 0.0
    return x


@breaks("FUNCTION", 'logging.getLogger("capture")')
def logs(x):
    x = x + 1
    logging.getLogger("capture").debug("here")
    return x * 2


@breaks("FUNCTION", "numpy.sqrt")
def calls_numpy(x):
    return x + float(numpy.sqrt(4.0))


@breaks("FUNCTION", 'print("inside")', trained)
def breaks_inside_no_grad(x):
    with torch.no_grad():
        y = x * 2
        print("inside")
        z = y * x
    return y, z, x * 3


@breaks("FUNCTION", 'print("scope")', lambda scale: (ramp(2, 2) * scale, Scope()))
def breaks_inside_a_context_of_ones_own(x, scope):
    with scope as inner, Scope(True):
        x = x + inner.depth
        print("scope")
        raise ValueError
    return x + scope.depth


@breaks("FUNCTION", 'print("handler")')
def breaks_in_a_handler(x):
    try:
        x = x + 1
        raise ValueError("a")
    except ValueError as error:
        print("handler")
        x = x + len(str(error))
    return x * 2


@breaks("FUNCTION", "print(k)")
def breaks_in_a_loop_over_iterators(x):
    for k, (a, b) in enumerate(zip(map(lambda v: v + 1, [1, 2]), {"u": 1, "v": 2})):
        x = x + a * k + len(b)
        print(k)
    for part in itertools.chain([x], reversed([1, 2])):
        x = x + part
        print(b)
    return x


@breaks("FUNCTION", 'print("objects")', lambda scale: (ramp(2, 2) * scale, State()))
def objects_across_a_break(x, state):
    p, pair, box = Point(x), Pair(x + 1), collections.OrderedDict(a=x)
    state.count += 1
    state.seen.append(p)
    print("objects")
    state.count += 1
    return p.at + pair.total() + box["a"] + state.count, state.seen[2] is p, p.tags


@breaks("FUNCTION", "id(x)")
def asks_identity(x):
    y = x + 1
    return y + (id(x) > 0)
