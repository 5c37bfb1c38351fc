"""More cases of features.py: what ends a graph, and what goes on behind it."""

import collections
import functools
import itertools
import logging
import random

import narthex as torch
import numpy

from .conftest import ramp
from .features import Pair, Point, Scope, State, breaks, by_elements, case, trained

# ---- what ends a graph


@breaks("FUNCTION", 'print("here")')
def prints(x):
    x = x + 1
    print("here")
    return x * 2


@by_elements
@breaks("FUNCTION", "x.sum().item()")
def asks_item(x):
    x = x + x.sum().item()
    return x * 2


@by_elements
@breaks("METHOD", "x = x[x > 2]")
def reads_by_mask(x):
    x = x + 1
    x = x[x > 2]
    return x * 2


@by_elements
@breaks("METHOD", "y = x.masked_select(x > 2)")
def selects_by_mask(x):
    x = x + 1
    y = x.masked_select(x > 2)
    return x * 2, y


@by_elements
@breaks("FUNCTION", "at = x.nonzero()")
def asks_for_places(x):
    x = x - 1
    at = x.nonzero()
    return x * 2, at


@by_elements
@breaks("FUNCTION", "same = torch.equal(x, x - 1)")
def compares_all(x):
    x = x + 1
    same = torch.equal(x, x - 1)
    return x * 2, same


@by_elements
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


@case()
def cached_function(x):
    return x + cached(3)


@breaks("REBUILD", "walk = ")
def generator_across_a_break(x):
    walk = (x + k for k in range(3))
    first = next(walk)
    print("here")
    return first + sum(walk)


@breaks("FUNCTION", 'logging.getLogger("capture")')
def logs(x):
    x = x + 1
    logging.getLogger("capture").debug("here")
    return x * 2


@case()
def calls_numpy(x):
    return x + float(numpy.array([4.0])[0])


@case()
def numbers_of_numpy(x):
    return x * numpy.float32(2.5) + float(numpy.sqrt(4.0)) * int(numpy.prod(x.shape))


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
