"""What is read of classes, threads, versions, keys and arrays holds: a call that finds it otherwise is traced anew."""

import collections
import dataclasses
import threading

import narthex as torch
import numpy as np
import pytest

from .conftest import compiled, make, ones, same


class Counted:
    n = 0
    k = 1


class Above(Counted):
    pass


def counts(x):
    Counted.n += 1
    Above.k = Counted.n * 2
    return x * Above.n + Counted().k + Above().k


def takes_away(x):
    Above.more = 3
    found = Above.more, "more" in Above.__dict__, "more" in Counted.__dict__
    del Above.more
    return x * found[0], found, hasattr(Above, "more"), getattr(Above, "k", 7)


def has_one_made(x):
    made = type("Made", (Counted,), {"k": 5, "of": lambda self, y: y * self.k + self.n})
    made.n = made.k + Counted.n
    return made().of(x), made.n, made.__name__, isinstance(made(), Counted)


@pytest.mark.parametrize("f", [counts, takes_away, has_one_made])
def test_what_classes_hold(f, stop_at):
    """A class's attributes are written at each call, in their order, and read by others between the calls."""
    for stop in range(20):
        stop_at(stop)
        capture, found = compiled(f, backend="eager"), []
        for call in (f, capture):
            Counted.n, Counted.k = 0, 1
            vars(Above).get("k") and delattr(Above, "k")
            results = []
            for other in (0, 0, 5, 5, 1):
                Counted.n += other
                results.append((call(ones(2)), Counted.n, Counted.k, vars(Above).get("k")))
            found.append(results)
        assert same(*found), stop


def test_a_class_dict_is_read_by_key_or_as_a_whole():
    class Own:
        a = 1

    capture = make(lambda x: x * Own.__dict__["a"] + ("b" in Own.__dict__) + Own.__dict__.get("c", 0), fullgraph=True)
    names = make(lambda x: x * len([k for k in Own.__dict__ if k[0] != "_"]), fullgraph=True)
    assert capture(ones(1)) == 1 and names(ones(1)) == 1
    Own.a = 4
    Own.unread = 1
    assert capture(ones(1)) == 4 and names(ones(1)) == 2 and capture.entries == 2
    Own.b = 1
    assert capture(ones(1)) == 5
    Own.c = 2
    assert capture(ones(1)) == 7 and names(ones(1)) == 4


def test_each_thread_has_its_own():
    local, found = threading.local(), []
    local.x = 1

    def function(x):
        local.x += 1
        local.seen = x
        return x * local.x + hasattr(local, "y")

    capture = make(function, fullgraph=True)
    assert [capture(ones(1)).item() for _ in range(4)] == [2, 3, 4, 5] and local.x == 5 and local.seen == 1

    def other():
        local.x = 10
        found.extend(capture(ones(1)).item() for _ in range(2))
        del local.x
        with pytest.raises(AttributeError):
            capture(ones(1))

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert found == [11, 12] and local.x == 5
    local.y = 1
    assert capture(ones(1)).item() == 7


def test_how_often_a_tensor_was_written():
    def function(x):
        x.add_(1)
        part, made = x[0], x * 2
        made.zero_()
        x.detach().mul_(2)
        return x * x._version, part._version, made._version

    capture, x, y = make(function, fullgraph=True), ones(2), ones(2)
    for k in range(4):
        assert same(capture(x), function(y)) and x._version == y._version
        if k == 2:
            x.add_(1), y.add_(1)


Frozen = dataclasses.make_dataclass("Frozen", [("a", int), ("b", object, None)], frozen=True)


def test_keys_that_are_frozen_dataclasses():
    table, kinds = {Frozen(1): 2, Frozen(2, "z"): 3, Frozen(1, Frozen(2)): 4}, {Frozen(1)}

    def function(x, key):
        made = {key: x, Frozen(7): 1}
        return x * table.get(key, 0) + table[Frozen(1, Frozen(2))] + (key in kinds) + made[Frozen(key.a, key.b)], made

    capture = make(function, fullgraph=True)
    for key in (Frozen(1), Frozen(1), Frozen(2, "z"), Frozen(2), Frozen(1.0), Frozen(1, Frozen(2))):
        assert same(capture(ones(2), key), function(ones(2), key))
    entries = capture.entries
    assert same(capture(ones(2), Frozen(2, "z")), function(ones(2), Frozen(2, "z"))) and capture.entries == entries
    table[Frozen(1)] = 8
    kinds.add(Frozen(2))
    assert capture(ones(1), Frozen(2))[0] == 6 and capture(ones(1), Frozen(1))[0] == 14
    del table[Frozen(1)]
    table[Frozen(1)] = 9
    assert capture(ones(1), Frozen(1))[0] == 15
    object.__setattr__(next(iter(table)), "a", 2)
    assert capture(ones(1), Frozen(1))[0] == function(ones(1), Frozen(1))[0]


def test_an_attribute_of_a_dict_is_none_of_its_keys():
    class Dict(dict):
        pass

    table = Dict(a=1)

    def function(x):
        table.a = 5
        return x * table["a"]

    capture = make(function)
    assert capture(ones(1)) == 1
    table["a"] = 3
    assert capture(ones(1)) == 3


def test_an_ordered_dict_has_attributes():
    table = collections.OrderedDict(a=1)
    table.more = 2

    def function(x):
        made = collections.OrderedDict(b=x)
        made.more = table.more
        return made

    capture = make(function, fullgraph=True)
    for more in (2, 2, 5):
        table.more = more
        made = capture(ones(1))
        assert list(made) == ["b"] and made.more == more


# ---- arrays of numpy
def adds_to_a_tensor(x, n):
    made = np.array([1.0, n])
    shown = torch.from_numpy(made)
    shown.add_(x)
    return shown, torch.tensor(np.arange(n) * 2 + 1), torch.as_tensor(np.ones((2, n), dtype="float32"))


def gives_arrays(x, n):
    made = np.zeros(2), np.zeros(2)
    whole = int(made[1].sum() + np.sqrt(n * n))
    return x * made[0][1], made, np.stack([made[0], [1, n]]), np.dtype("float32"), x * whole


def reads_what_a_tensor_shows(x, n):
    made = np.array([1.0, n])
    torch.from_numpy(made).add_(1)
    return x * float(made.sum())


def writes_one(x, n):
    made = np.zeros(2)
    made[0] = n
    made += 1
    seen = made.reshape(2, 1)
    seen[1] = 7
    return x * made[0], made, np.add(made, 1, made)


def array_equal(a, b):
    if isinstance(a, np.ndarray):
        return type(a) is type(b) and a.dtype == b.dtype and np.array_equal(a, b)
    return all(map(array_equal, a, b)) and len(a) == len(b) if isinstance(a, tuple) else same(a, b)


@pytest.mark.parametrize("f", [adds_to_a_tensor, gives_arrays, reads_what_a_tensor_shows, writes_one])
def test_arrays(f, stop_at):
    """What numpy makes of constants is a constant of the graph, and a new array for who gets one."""
    for stop in range(0, 24, 1 + (f is writes_one)):
        stop_at(stop)
        capture = compiled(f, backend="eager")
        for n in (2, 2, 3, 2):
            found = capture(torch.ones(2), n)
            assert array_equal(found, f(torch.ones(2), n)), stop
            for part in found if isinstance(found, tuple) else ():
                if isinstance(part, tuple):
                    part[0][:] = 5
                    assert part[1][0] != 5


@pytest.mark.parametrize("f", [adds_to_a_tensor, gives_arrays])
def test_arrays_are_one_graph(f):
    capture = make(f, fullgraph=True)
    assert array_equal(capture(torch.ones(2), 2), f(torch.ones(2), 2))
