"""What programs do inside a compiled function, one feature a case, each captured as one graph (BREAKS: ends the graph).

A case is a function and what makes its arguments, which are made anew for every call; `scale` changes the values of the
tensors, so that a second call shows what was computed and what was kept.
"""

import collections
import copy
import dataclasses
import enum
import itertools
import math
import typing

import narthex as torch

from .conftest import ones, ramp

CASES = []  # (function, make(scale) -> arguments, graphs)
BREAKS = []  # (function, make, code of the break, text of the line it ends at)
BY_ELEMENTS = []  # those of them that are one graph where it may not end
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


def by_elements(function):
    BY_ELEMENTS.append(function)
    return function


class Scope:
    def __init__(self, swallows=False):
        self.depth, self.swallows = 0, swallows

    def __enter__(self):
        self.depth += 1
        return self

    def __exit__(self, kind, value, traceback):
        self.depth -= 1
        return self.swallows and kind is ValueError


def defaults(x, k=2, *rest, shift=1, **named):
    for value in rest:
        x = x + value
    return x * k + shift + named.get("extra", 0)


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


@case()
def class_written(x):
    Config.dropout = 0.5
    x = x + Config.dropout
    Config.dropout = 0.0
    return x
