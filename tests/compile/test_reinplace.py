"""Writes to parts: compiled, they write the part and copy nothing else, and no other value of the memory changes."""

import narthex as nt
import pytest

from .test_plan import compiled_plan


def scatters(plan):
    return plan.count("_scatter(")


def rows(x):
    out = nt.zeros(6, 5)
    for i in range(6):
        out[i] = x * i
    return out


def parts_of_parts(x):
    out = nt.zeros(3, 4, 5)
    out[1][2][0:3] = x[:3]
    out[:, 1, :] = x
    out[2, -1] = x + 1
    out[0, 1:4:2, -2] = 7
    return out * 1


def reads_between(x):
    out = nt.zeros(6, 5)
    out[0] = x
    before = out * 2
    out[1] = before[0]
    return before, out


def reads_afterwards(x):
    out = x * nt.ones(6, 1)
    old = out.clone()
    out[2] = 0
    return old + out, out


def moves_within(x):
    out = x * nt.arange(6.0).unsqueeze(1)
    out[1:4] = out[0:3].clone()
    out[0] = out[5]
    return out


def columns(x):
    out = nt.zeros(5, 6).t()
    out[:, 1] = nt.arange(6.0)
    out[3] = x
    return out + 0


ALONE = [rows, parts_of_parts, columns]


@pytest.mark.parametrize("function", [rows, parts_of_parts, reads_between, reads_afterwards, moves_within, columns])
def test_memory_of_its_own(function):
    x = nt.randn(5)
    plan, got = compiled_plan(function, x)
    want = function(x)
    for a, b in zip(*((r,) if isinstance(r, nt.Tensor) else r for r in (got, want))):
        assert a.stride() == b.stride() and bool((a == b).all())
    assert function not in ALONE or scatters(plan) == 0, plan


def test_rows_are_written_where_they_belong():
    plan, _ = compiled_plan(rows, nt.randn(5))
    assert plan.count(" = aten::copy_(") == 6 and " 13 steps" in plan and "aten::copy(" not in plan, plan


def position(cache, k, at):
    cache[:, :, at : at + 1] = k
    return k * 2


def two_layers(cache, k, at):
    cache[0][:, at : at + 1] = k[0]
    cache[1][:, at + 1] = k[0, :, 0]
    return (cache * 2).sum()


def keeps_the_old(cache, k, at):
    old = cache + 1
    cache[:, :, at : at + 1] = k
    return old, cache[:, :, at] * 3


def writes_what_it_reads(cache, k, at):
    total = cache.sum()
    cache[0, 0] = total
    return total


def returns_it(cache, k, at):
    cache[:, :, at : at + 1] = k
    return cache, cache[0]


@pytest.mark.parametrize("mode", ["max-autotune", "reduce-overhead"])
@pytest.mark.parametrize("function", [position, two_layers, keeps_the_old, writes_what_it_reads, returns_it])
def test_memory_of_an_input(function, mode):
    compiled = nt.compile(function, mode=mode)
    mine, theirs = nt.zeros(2, 3, 8, 4), nt.zeros(2, 3, 8, 4)
    for _ in range(3):
        k = nt.randn(2, 3, 1, 4)
        version = mine._version
        got, want = compiled(mine, k, 5), function(theirs, k, 5)
        for a, b in zip(*((r,) if isinstance(r, nt.Tensor) else r for r in (got, want))):
            assert bool((a == b).all())
        assert bool((mine == theirs).all()) and mine._version > version
    if function is returns_it:
        assert compiled(mine, k, 5)[0] is mine


def test_a_cache_is_not_copied():
    """The plan of a position of a cache has no memory of its own and no result but the small one."""
    made = []

    def backend(gm, example_inputs):
        made.append(gm.graph._c.aot(False).compile("max-autotune", nt.device("cpu")))
        return made[0]

    cache, k = nt.zeros(1, 12, 64, 8), nt.randn(1, 12, 1, 8)
    nt.compile(lambda cache, k: position(cache, k, 7), backend=backend)(cache, k)
    plan = made[0].plan()
    assert scatters(plan) == 0 and " written" in plan and "feature 0 bytes" in plan, plan


def test_inputs_that_share_memory():
    """What is read through another input is what was there before the call wrote, as without a compiled function."""

    def f(cache, other):
        y = other * 2
        cache[1] = cache[0] + 5
        return y

    memory = nt.arange(12.0).view(3, 4)
    expected = memory.clone()
    got, want = nt.compile(f)(memory, memory[1]), f(expected, expected[1])
    assert bool((got == want).all()) and bool((memory == expected).all())


def test_an_input_that_requires_grad_keeps_its_values():
    def f(cache, w):
        y = cache.clone() * w
        cache[0] = 1
        return y.sum()

    cache, w = nt.randn(3, 4), nt.randn(3, 4, requires_grad=True)
    before = cache.clone()
    nt.compile(f)(cache, w).backward()
    assert bool((w.grad == before).all()) and bool((cache[0] == 1).all())


def test_many_rows():
    """Two hundred rows, each after the other, have eager mode's elements."""

    def f(x):
        out = nt.zeros(200, 30)
        for i in range(200):
            out[i] = x * i
        return out

    x = nt.randn(30)
    assert bool((nt.compile(f)(x) == f(x)).all())


WRITES = {
    "index_copy_": lambda c, rows, values: c.index_copy_(0, rows, values),
    "index_add_": lambda c, rows, values: c.index_add_(0, rows, values, alpha=0.5),
    "index_put_": lambda c, rows, values: c.index_put_((rows,), values),
    "scatter_": lambda c, rows, values: c.scatter_(0, rows[:, None].expand_as(values), values),
    "scatter_add_": lambda c, rows, values: c.scatter_add_(0, rows[:, None].expand_as(values), values),
    "scatter_reduce_": lambda c, rows, values: c.scatter_reduce_(0, rows[:, None].expand_as(values), values, "amax"),
    "cumsum_": lambda c, rows, values: c.cumsum_(1),
    "tril_": lambda c, rows, values: c.tril_(),
    "addmm_": lambda c, rows, values: c.addmm_(values.t(), values),
}


@pytest.mark.parametrize("mode", ["max-autotune", "reduce-overhead"])
@pytest.mark.parametrize("kind", WRITES)
def test_kernels_with_an_in_place_form_write_where_their_operand_lies(kind, mode):
    """A cache that is an argument is neither copied nor copied back."""

    def write(c, rows, values):
        WRITES[kind](c, rows, values)
        return c * 2

    nt.manual_seed(0)
    first, rows, values = nt.randn(16, 16), nt.tensor([5, 2, 9]), nt.randn(3, 16)
    eager, compiled = first.clone(), first.clone()
    expected = write(eager, rows, values)
    f = nt.compile(write, mode=mode, fullgraph=True)
    for _ in range(2):
        compiled.copy_(first)
        where = compiled.data_ptr()
        assert nt.equal(f(compiled, rows, values), expected)
        assert nt.equal(compiled, eager) and compiled.data_ptr() == where
    plan, _ = compiled_plan(write, first, rows, values)
    writes = [line for line in plan.splitlines() if "= aten::" in line and " in0:" in line.split("=")[0]]
    assert len(writes) == 1 and "result" not in writes[0], plan


def test_what_a_kernel_reads_elsewhere_is_not_written_in_place():
    """The operand is read twice, or once more afterwards."""
    first, rows = nt.randn(8, 8), nt.tensor([5, 2, 7])

    def twice(c, rows):
        made = c + 1
        return made.addmm(made, made), made.index_copy(0, rows, made[:3])

    def afterwards(c, rows):
        made = c + 1
        return made.index_add(0, rows, made[1:4]) - made

    for f in (twice, afterwards):
        expected, found = f(first, rows), nt.compile(f)(first, rows)
        for a, b in zip(nt.utils._pytree.tree_leaves(expected), nt.utils._pytree.tree_leaves(found), strict=True):
            assert nt.equal(a, b)
