"""What programs do with the language around tensors: a compiled function may end at any statement (test_pieces.py)."""

import abc
import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import itertools
import math
import operator
import typing

import narthex as torch


def about_exc(m, x):
    out = []
    try:
        y = x * 2
        out.append(y)
        if x.shape[0] > 1:
            raise ValueError("big")
        out.append(0)
    except ValueError as e:
        out.append(str(e))
        z = x + 1
    finally:
        out.append(x.sum())
    return out, z


def about_with(m, x):
    log = []

    @contextlib.contextmanager
    def ctx(k):
        log.append(k)
        try:
            yield k * 2
        finally:
            log.append(-k)

    with ctx(1) as a:
        y = x * a
        with ctx(2) as b:
            z = y + b
    return z, log


def about_gen(m, x):
    def gen():
        total = x * 0
        for k in range(3):
            total = total + x * k
            yield total

    g = gen()
    a = next(g)
    b = next(g)
    rest = list(g)
    return a, b, rest


def about_closure(m, x):
    count = 0

    def inc(t):
        nonlocal count
        count += 1
        return t + count

    y = inc(x)
    z = inc(y)
    return z, count


def about_dict(m, x):
    d = collections.OrderedDict(a=x, b=x * 2)
    d.move_to_end("a")
    e = collections.defaultdict(list)
    e["k"].append(x + 1)
    e["k"].append(2)
    c = collections.Counter("abca")
    return list(d), d["b"], e["k"], c["a"], collections.deque([x, 1], maxlen=2)


@dataclasses.dataclass
class D:
    t: object
    n: int = 0

    def step(self):
        self.n += 1
        self.t = self.t * 2
        return self


def about_dataclass(m, x):
    d = D(x)
    d.step()
    e = dataclasses.replace(d, n=10)
    d.step()
    return d.t, d.n, e.t, e.n


def about_lists(m, x):
    own = [x]
    k = own
    own.append(x + 1)
    k += [x + 2]
    own.insert(0, 5)
    t = own.pop()
    own[1:2] = [x * 3, x * 4]
    return own, t, k is own


def about_string(m, x):
    n = f"{x.shape[0]:03d}-{tuple(x.shape)}-{x.dtype}"
    y = x * len(n)
    return y, n, f"{x.dim():>3}"


def about_walrus(m, x):
    if (n := x.size(0)) > 2:
        x = x * n
    out = [y for k in range(3) if (y := x + k) is not None]
    return out


def about_match(m, x):
    match tuple(x.shape):
        case (3, k):
            r = x * k
        case _:
            r = x
    return r


def about_del(m, x):
    y = x * 2
    z = y
    del y
    w = {"a": z}
    del w["a"]
    return z, w


def about_sort(m, x):
    own = sorted([(k, x * k) for k in (3, 1, 2)], key=lambda t: t[0])
    v, i = x.sort(dim=1)
    t = torch.topk(x, 2)
    return [a for a, _ in own], own[0][1], v, i, t.values, type(t).__name__


def about_named(m, x):
    P = collections.namedtuple("P", "a b")
    p = P(x, 2)
    q = p._replace(b=3)
    return p.a * q.b, q


class Base:
    scale = 2

    def __init__(self):
        self.items, self._v = [], 1

    def act(self, x):
        self.items.append(x.sum())
        return x * self.scale

    @property
    def v(self):
        return self._v

    @v.setter
    def v(self, k):
        self._v = k * 2

    @classmethod
    def make(cls):
        return cls()

    @staticmethod
    def half(x):
        return x / 2


class Sub(Base):
    scale = 3
    __slots__ = ("s",)

    def act(self, x):
        self.s = x.mean()
        return super().act(x) + self.s


def about_class(m, x):
    o = Sub.make()
    y = o.act(x)
    o.v = 4
    z = o.act(o.half(y)) * o.v
    return y, z, len(o.items), o.s, o.v


def about_loops(m, x):
    out = []
    for i in range(6):
        if i == 1:
            continue
        if i == 4:
            break
        out.append(x * i)
    else:
        out.append("never")
    k = 0
    while k < 3:
        k += 1
        x = x + k
    else:
        out.append(x)
    return out, k


def about_try_return(m, x):
    log = []

    def inner(t):
        try:
            log.append(1)
            if t.shape[0] == 3:
                return t * 2
        finally:
            log.append(2)
        return t

    y = inner(x)
    z = inner(x[:2])
    return y, z, log


def about_nested_exc(m, x):
    def deep(k):
        if k == 0:
            raise KeyError("deep")
        return deep(k - 1)

    try:
        try:
            y = x + 1
            deep(3)
        except IndexError:
            y = None
        finally:
            y = y * 2
    except KeyError as e:
        err = e.args[0]
        z = y + 1
    return y, z, err


def about_args(m, x):
    def f(a, /, b, *c, d=4, **e):
        return a * b + sum(c) + d + sum(e.values())

    y = f(x, 2)
    z = f(x, 2, 3, 4, d=5, k=6)
    args, kw = (x, 1), {"d": 2, "q": x}
    w = f(*args, *[7], **kw)
    p = functools.partial(f, x, d=1)
    return y, z, w, p(3)


def about_sets(m, x):
    s = {1, 2, 3}
    s |= {4}
    t = s - {1}
    t.discard(2)
    y = x * len(t) + sum(s)
    return y, sorted(s), sorted(t), 3 in t


def about_enum(m, x):
    class_ = enum.Enum("C", "A B")
    c = class_.A
    y = x * c.value
    return y, c.name, class_["B"].value


def about_send(m, x):
    def gen():
        t = yield x
        while True:
            t = yield t * 2
            if t is None:
                return "end"

    g = gen()
    a = next(g)
    b = g.send(a + 1)
    c = g.send(b)
    try:
        g.send(None)
    except StopIteration as e:
        v = e.value
    return a, b, c, v


def about_yield_from(m, x):
    def inner():
        yield x + 1
        return x * 5

    def outer():
        k = yield from inner()
        yield k

    out = list(outer())
    return out


def about_itertools(m, x):
    a = list(itertools.chain([x], (x + k for k in range(2))))
    b = [s * t for s, t in itertools.product((1, 2), (x, x * 2))]
    c = list(itertools.accumulate([1, 2, 3]))
    d = functools.reduce(operator.add, a)
    e = list(map(lambda t: t * 2, a))
    return a, b, c, d, e


def about_iter(m, x):
    it = iter([x, x + 1, x + 2])
    a = next(it)
    rest = 0
    for t in it:
        rest = rest + t
    d = next(it, None)
    en = enumerate([x, x * 2], 1)
    i, t = next(en)
    z = zip([1, 2], en)
    return a, rest, d, i, t, [(p, q[0]) for p, q in z]


def about_unpack(m, x):
    a, *b = x
    (c, d), e = (x[0], x[1]), 3
    f, g = b
    a, c = c, a
    return a, b, c, d, e, f + g


def about_lists_alias(m, x):
    a = [[x], [x]]
    b = a[0]
    b.append(x + 1)
    a[1] = b
    a[1].append(2)
    c = copy.copy(a)
    d = copy.deepcopy([1, [2]])
    d[1].append(3)
    c.append(0)
    return a, b, len(c), d


def about_dict_ops(m, x):
    d = {"a": x}
    d.update(b=x + 1)
    d.setdefault("c", []).append(x)
    e = {**d, "a": 1}
    v = d.pop("b")
    k = list(d)
    d["z"] = len(d)
    del d["a"]
    f = {k: v for k, v in sorted(d.items(), key=lambda t: t[0]) if k != "c"}
    return d, e["a"], v, k, f, "a" in d


def about_namedtuple(m, x):
    class T(typing.NamedTuple):
        a: object
        b: int = 2

    t = T(x)
    u = t._replace(b=3)
    return t.a * u.b, tuple(u)


def about_strings(m, x):
    names = [n for n, _ in m.named_parameters()]
    s = ",".join(names).upper().split(",")
    k = sum(len(t) for t in s)
    y = x * k
    t = f"{k:>5}|{names[0]!r}"
    return y, s, t, t.strip()[-3:]


def about_math(m, x):
    s = math.sqrt(x.shape[0]) + math.floor(2.7)
    y = x * s / math.pi
    n = -(-x.shape[1] // 3)
    d, r = divmod(x.shape[1], 3)
    return y, n, d, r, round(s, 3)


def about_lambda_default(m, x):
    fs = [lambda t, k=k: t * k for k in range(3)]
    return [f(x) for f in fs]


def about_deco(m, x):
    calls = []

    def deco(n):
        def wrap(f):
            @functools.wraps(f)
            def g(*a):
                calls.append(f.__name__)
                return f(*a) * n

            return g

        return wrap

    @deco(3)
    def body(t):
        return t + 1

    y = body(x)
    return y, calls, body.__name__


def about_assert(m, x):
    assert x.dim() == 2, "dim"
    y = x * 2
    try:
        assert y.shape[0] == 4, f"shape {tuple(y.shape)}"
    except AssertionError as e:
        t = str(e)
    return y, t


def about_getattr(m, x):
    f = m.a
    g = getattr(m, "nothing", None)
    m.dyn = 5
    y = f(x) * m.dyn
    h = hasattr(m, "dyn")
    delattr(m, "dyn")
    return y, g, h, hasattr(m, "dyn"), vars(m)["calls"]


def driven(coroutine):
    """What it returns, however often it waits."""
    try:
        while True:
            coroutine.send(None)
    except StopIteration as e:
        return e.value


class Counted:
    """Awaited, walked and entered asynchronously."""

    def __init__(self, x, most=2):
        self.x, self.k, self.most, self.log = x, 0, most, []

    def __await__(self):
        yield
        return self.x + self.k

    def __aiter__(self):
        return self

    async def __anext__(self):
        self.k += 1
        if self.k > self.most:
            raise StopAsyncIteration
        return await self

    async def __aenter__(self):
        self.log.append("in")
        return self

    async def __aexit__(self, kind, value, traceback):
        self.log.append(str(value))
        return kind is ValueError


def about_await(m, x):
    async def twice(t):
        return t * 2

    async def both(t):
        first = await twice(t)
        return first + await Counted(t)

    c = both(x)
    y = driven(c)
    z = driven(twice(y))
    return y, z


def about_async_for(m, x):
    log = []

    async def steps(n):
        try:
            for k in range(n):
                yield x * k
        finally:
            log.append(n)

    async def walk():
        out = [v + 1 async for v in steps(3)]
        async for v in Counted(x):
            out.append(v)
        g = steps(2)
        await anext(g)
        await g.aclose()
        return out, await anext(steps(0), None)

    y = driven(walk())
    return y, log


def about_async_with(m, x):
    @contextlib.asynccontextmanager
    async def scaled(k):
        yield x * k

    async def body(fails):
        async with Counted(x) as c, scaled(3) as y:
            if fails:
                raise ValueError("mended")
            return c.x + y, c.log
        return y, c.log

    a = driven(body(False))
    b = driven(body(True))
    return a, b


def about_async_errors(m, x):
    async def waits(what):
        return await what

    async def stops():
        raise StopIteration(1)

    async def ends():
        yield 1
        raise StopAsyncIteration

    async def walks(over):
        return [v async for v in over]

    async def enters(what):
        async with what:
            pass

    out = []
    for c in (waits(5), stops(), walks(ends()), walks([x]), enters(3)):
        try:
            driven(c)
        except (TypeError, RuntimeError) as e:
            out.append(str(e))
    return x + len(out), out


class Registered:
    """Its subclasses get a number."""

    def __init_subclass__(cls, number=0, **rest):
        super().__init_subclass__(**rest)
        cls.number = number


class Doubling(type):
    def __new__(cls, name, bases, space, **rest):
        space["more"] = 5
        return super().__new__(cls, name, bases, space)

    def twice(cls):
        return cls.more * 2


def about_made_class(m, x):
    class Scale:
        """a doc"""

        n = 2
        k: int = 4

        def __init__(self, v):
            self.v = v

        def apply(self, t):
            return t * self.v + x * self.n

        @property
        def next(self):
            return self.v + 1

        @next.setter
        def next(self, v):
            self.v = v - 1

        @staticmethod
        def one(t):
            return t + 1

        @classmethod
        def make(cls, v):
            return cls(v)

        def again(self):
            return Scale(self.v * 2)

    s = Scale.make(3)
    s.next = 6
    Scale.n = 3
    y = s.again().apply(x)
    z = Scale.one(y)
    return y, z, s.next, Scale.__name__, Scale.__doc__, list(Scale.__annotations__), isinstance(s, Scale)


def about_bases(m, x):
    class First:
        def go(self):
            return x

    class Second(First, abc.ABC):
        def go(self):
            return super().go() * 2

        @abc.abstractmethod
        def stop(self): ...

    class Third(Second):
        def go(self):
            return super().go() + 1

        def stop(self):
            return "stopped"

    try:
        Second()
    except TypeError as e:
        t = type(e).__name__
    third = Third()
    y = third.go()
    return y, third.stop(), t, [c.__name__ for c in Third.__mro__]


def about_class_hooks(m, x):
    class Four(Registered, number=4):
        pass

    class More(metaclass=Doubling):
        pass

    class Named:
        def __set_name__(self, owner, name):
            self.name = name

        def __get__(self, instance, owner=None):
            return self.name if instance is None else x * 2

    class Holder:
        field = Named()

        def __class_getitem__(cls, key):
            return cls

    y = x * Four.number + More.more
    return y, More.twice(), Holder.field, Holder[int]().field


def about_own_dataclass(m, x):
    @dataclasses.dataclass
    class Point:
        a: torch.Tensor
        b: int = 3
        c: list = dataclasses.field(default_factory=list)

        def go(self):
            return self.a * self.b

    p = Point(x)
    p.c.append(1)
    q = dataclasses.replace(p, b=5)
    y = p.go() + q.go()
    return y, q.c, [f.name for f in dataclasses.fields(Point)], dataclasses.asdict(Point(2, c=[]))


def about_own_exception(m, x):
    class Small(ValueError):
        def __init__(self, size):
            super().__init__(f"{size} is small")
            self.size = size

    out = []
    try:
        out.append(x + 1)
        raise Small(x.shape[0])
    except Small as e:
        out.append((str(e), e.size))
    return out


def about_slots(m, x):
    class Pair:
        __slots__ = ("a", "b")

        def __init__(self, a):
            self.a = a

    p = Pair(x + 1)
    y = p.a * 2
    p.b = y
    return y, p.b, hasattr(Pair(0), "b")


PROGRAMS = [value for name, value in list(globals().items()) if name.startswith("about_")]
