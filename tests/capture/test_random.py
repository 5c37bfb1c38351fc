"""Random programs: compiled equals eager in result, arguments, stores, order of effects. A failure prints its seed."""

import contextlib
import linecache
import random
import sys
import warnings

import narthex as torch
import pytest
from narthex import _C

from . import random_programs
from .conftest import compiled, ones, ramp, run_graph

PROGRAMS, BLOCK = 2000, 100


class Item:
    def __init__(self):
        self.v, self.items = 1, []

    def step(self, x):
        self.v += 1
        return x * self.v

    def pure(self, x, k=2):
        return x * k + self.v

    def __enter__(self):
        self.v += 1
        return self

    def __exit__(self, kind, value, traceback):
        self.v += 1 if kind is None else 2
        return False


class Pair:
    def __init__(self, x, k=1):
        self.x, self.k = x, k

    def total(self):
        return self.x + self.k


def count(x, n):
    for k in range(n + 1):
        yield x + k


@contextlib.contextmanager
def scope(out):
    out.append("in")
    try:
        yield
    finally:
        out.append("out")


def namespace(seed):
    """The globals of program `seed`, with its f."""
    out = []

    def helper(x, k=1, *more, **named):
        for t in more:
            x = x + t
        return x * k + named.get("z", 0)

    def noisy(x):
        out.append("noisy")
        return x + 1

    names = {
        "torch": torch,
        "ones": ones,
        "out": out,
        "helper": helper,
        "noisy": noisy,
        "G_K": 3,
        "G_LIST": [],
        "Pair": Pair,
        "count": count,
        "scope": scope,
    }
    text, file = random_programs.source(seed), f"<program {seed}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    exec(compile(text, file, "exec"), names)
    return names, text


def plain(value):
    """A value as numbers and strings, so that two runs can be compared."""
    if isinstance(value, torch.Tensor):
        return "tensor", value.tolist(), value.requires_grad
    if isinstance(value, Pair):
        return "pair", plain([value.x, value.k])
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [plain(part) for part in value]
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    return value


ALIASES = ("", "", "", "o2 is o", "d2 is d", "l2 is o.items", "l2 is G_LIST", "d2 is vars(o)", "y is x", "d['a'] is x")


def arguments(names, alias):
    """x, y, o, d, o2, d2, l2, two of them the same as `alias` says."""
    x, o, o2, l2 = ramp(2), Item(), Item(), [ramp(2), 5]
    y = x if alias == "y is x" else ones(2)
    d = {"a": x if alias == "d['a'] is x" else ones(2)}
    o.a, o.items, d2 = ones(2), [ones(2)], {"a": ramp(2), "v": 3}
    if alias == "o2 is o":
        o2 = o
    elif alias == "d2 is d":
        d2 = d
    elif alias == "d2 is vars(o)":
        d2 = vars(o)
    elif alias == "l2 is o.items":
        l2 = o.items
    elif alias == "l2 is G_LIST":
        l2 = names["G_LIST"]
    return x, y, o, d, o2, d2, l2


def outcome(names, function, grad=False, alias=""):
    names["out"].clear()
    names["G_LIST"][:] = [1, 2]
    names["G_T"] = ones(2).requires_grad_(grad)
    x, y, o, d, o2, d2, l2 = arguments(names, alias)
    try:
        result = function(x, y, o, d, o2, d2, l2)
    except (RuntimeError, ValueError, LookupError, NameError, TypeError, AttributeError) as error:
        result = type(error).__name__, str(error)
    left = [x, y, vars(o), d, vars(o2), d2, l2, names["out"], names["G_LIST"]]
    return plain([result, left, torch.is_grad_enabled()])


def check_program(seed, stop_at):
    """The program of a seed, whole and with traces that stop early."""
    names, text = namespace(seed)
    draw = random.Random(seed)
    for stop in (0, draw.randint(1, 60)):
        stop_at(stop)
        capture = compiled(names["f"], backend=run_graph if draw.random() < 0.7 else "narthex")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # after eight compilations: eager
            for alias in ("", "", *draw.sample(ALIASES, 2)):
                grad = seed % 3 == 0
                expected, got = outcome(names, names["f"], grad, alias), outcome(names, capture, grad, alias)
                assert got == expected, f"seed {seed}, stop {stop}, {alias}\n{text}"


@pytest.mark.parametrize("first", range(0, PROGRAMS, BLOCK))
def test_random_programs(first, stop_at):
    for seed in range(first, first + BLOCK):
        check_program(seed, stop_at)


def main(seeds):
    """python -m tests.capture.test_random 0-100000: the programs of these seeds."""
    first, last = map(int, seeds.split("-"))
    for seed in range(first, last):
        check_program(seed, _C.set_capture_stop)
        if sys.stderr.isatty() and seed % 100 == 0:
            print(f"\r{seed - first} of {last - first}", end="", file=sys.stderr)
    print(f"{last - first} random programs: compiled as eager")


if __name__ == "__main__":
    main(sys.argv[1])
