"""Operators whose arguments share memory with what they write, beside PyTorch: what it refuses is refused, with its
text; what it computes right has its values, whether the kernel may read what it writes or is given a copy."""

from __future__ import annotations

from typing import Any

import narthex as nt
import pytest
import torch


def square(m: Any) -> Any:
    return m.arange(9.0).reshape(3, 3)


def places(m: Any) -> Any:
    return m.tensor([[2, 1, 0], [0, 0, 0], [1, 1, 1]])


def order(m: Any) -> Any:
    return m.tensor([2, 0, 1])


def put(a: Any, key: Any, value: Any) -> Any:
    a[key] = value
    return a


CASES: dict[str, Any] = {
    # the source or the index is what is written
    "setitem": lambda m, a: put(a, order(m), a),
    "setitem of a mask": lambda m, a: put(a, a > 3, a[a > 3]),
    "index_put_": lambda m, a: a.index_put_((order(m),), a),
    "index_put_ accumulating": lambda m, a: a.index_put_((order(m),), a, accumulate=True),
    "index_put_ at itself": lambda m, a: (b := order(m)).index_put_((b,), m.tensor([5, 6, 7])),
    "index_add_": lambda m, a: a.index_add_(0, order(m), a),
    "index_add_ at itself": lambda m, a: (b := order(m)).index_add_(0, b, m.tensor([5, 6, 7])),
    "scatter_": lambda m, a: a.scatter_(0, places(m), a),
    "scatter_ at itself": lambda m, a: (b := places(m)).scatter_(0, b, 1),
    "scatter_add_": lambda m, a: a.scatter_add_(0, places(m), a),
    "scatter_add_ at itself": lambda m, a: (b := places(m)).scatter_add_(0, b, m.ones_like(b)),
    # out= is an argument
    "gather out": lambda m, a: m.gather(a, 0, places(m), out=a),
    "gather out at itself": lambda m, a: (b := places(m), m.gather(b, 0, b, out=b)),
    "gather out is the index": lambda m, a: (b := places(m), m.gather(places(m), 0, b, out=b)),
    "index_select out": lambda m, a: m.index_select(a, 0, order(m), out=a),
    "index_select out is the index": lambda m, a: (b := order(m), m.index_select(m.tensor([5, 6, 7]), 0, b, out=b)),
    "scatter out is self": lambda m, a: m.scatter(a, 0, places(m), m.ones(3, 3), out=a),
    "scatter out is src": lambda m, a: m.scatter(m.zeros(3, 3), 0, places(m), a, out=a),
    "scatter_add out is self": lambda m, a: m.scatter_add(a, 0, places(m), m.ones(3, 3), out=a),
    "index_add out is self": lambda m, a: m.index_add(a, 0, order(m), m.ones(3, 3), out=a),
    "index_add out is source": lambda m, a: m.index_add(m.zeros(3, 3), 0, order(m), a, out=a),
    "cat out": lambda m, a: m.cat([a], 0, out=a),
    "cat of views out": lambda m, a: m.cat([a[:1], a[1:]], 0, out=a),
    "stack of views out": lambda m, a: m.stack([a[0], a[1], a[2]], 0, out=a),
    "cumsum out": lambda m, a: m.cumsum(a, 0, out=a),
    "_softmax out": lambda m, a: m.ops.aten._softmax.out(a, 0, False, out=a),
    "tril out": lambda m, a: m.tril(a, out=a),
    "addmm out is self": lambda m, a: m.addmm(a, square(m), square(m), out=a),
    "dot out is an element": lambda m, a: (b := m.arange(3.0), m.dot(b, b, out=b[0])),
    # element by element
    "add out": lambda m, a: m.add(a, a, out=a),
    "where out": lambda m, a: m.where(a > 3, a, a + 1, out=a),
    "mul_": lambda m, a: a.mul_(a),
    "mul_ a view": lambda m, a: a.mul_(a.view(3, 3)),
    "add_ turned": lambda m, a: a.add_(a.t()),
    "add_ a row": lambda m, a: a.add_(a[0]),
    "masked_fill_ at itself": lambda m, a: (b := a > 3).masked_fill_(b, False),
    "copy_": lambda m, a: a.copy_(a),
    "copy_ a view": lambda m, a: a.copy_(a.view(3, 3)),
    "copy_ turned": lambda m, a: a.copy_(a.t()),
    "copy_ a part": lambda m, a: a[:2].copy_(a[1:]),
    "setitem of a part": lambda m, a: put(a, slice(0, 2), a[1:]),
    "setitem of the same part": lambda m, a: put(a, slice(0, 2), a[:2]),
}


def numbers(nested: Any) -> list[float]:
    return [x for part in nested for x in numbers(part)] if isinstance(nested, list) else [nested]


def outcome(m: Any, f: Any) -> tuple[str, Any]:
    try:
        result = f(m, square(m))
    except Exception as error:
        return type(error).__name__, str(error)
    return "", [t.tolist() for t in (result if isinstance(result, tuple) else (result,)) if isinstance(t, m.Tensor)]


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("name", CASES)
def test_shared_memory(name: str) -> None:
    expected, got = outcome(torch, CASES[name]), outcome(nt, CASES[name])
    assert got[0] == expected[0], (got, expected)
    if got[0]:
        assert got[1].endswith(expected[1])
        assert "single memory location" in expected[1]
    else:
        assert numbers(got[1]) == pytest.approx(numbers(expected[1]), rel=1e-6)


# PyTorch reads here what it has written, on some machines; ours give the values of arguments that lie elsewhere.
READ_FIRST: dict[str, tuple[Any, Any]] = {
    "mm": (lambda b: nt.mm(b[0], b[0], out=b[0]), lambda c: c[0] @ c[0]),
    "mm out is mat2": (lambda b: nt.mm(square(nt), b[0], out=b[0]), lambda c: square(nt) @ c[0]),
    "addmm out is mat1": (
        lambda b: nt.addmm(square(nt), b[0], square(nt), out=b[0]),
        lambda c: nt.addmm(square(nt), c[0], square(nt)),
    ),
    "addmm_": (lambda b: b[0].addmm_(b[0], b[0]), lambda c: nt.addmm(c[0], c[0], c[0])),
    "bmm": (lambda b: nt.bmm(b, b, out=b), lambda c: nt.bmm(c, c)),
    "sum out is a row": (lambda b: nt.sum(b[0], 0, out=b[0, 0]), lambda c: c[0].sum(0)),
    "tril out is turned": (lambda b: nt.tril(b[0], out=b[0].t()), lambda c: nt.tril(c[0])),
    "mv": (lambda b: nt.mv(b[0], b[0, 0], out=b[0, 0]), lambda c: nt.mv(c[0], c[0, 0])),
    "sum": (lambda b: nt.sum(b, 1, keepdim=True, out=b[:, :1]), lambda c: c.sum(1, keepdim=True)),
    "mm with gaps": (lambda b: nt.mm(b[0, ::2], b[0, :, ::2], out=b[0, ::2, ::2]), lambda c: c[0, ::2] @ c[0, :, ::2]),
}


@pytest.mark.parametrize("name", READ_FIRST)
def test_read_before_it_is_written(name: str) -> None:
    shared, apart = READ_FIRST[name]
    b = nt.arange(9.0).reshape(1, 3, 3)
    expected = apart(b.clone()).tolist()
    assert shared(b).tolist() == expected


@pytest.mark.parametrize("n", [2047, 2048, 2049, 4096 + 31, 70001])
@pytest.mark.parametrize("shift", [1, 7, 31, 32])
def test_parts_that_begin_farther_in_a_page(n: int, shift: int) -> None:
    """x[shift:] = y: every byte, and none beside them."""
    torch.manual_seed(n)
    y = torch.randint(0, 256, (n,), dtype=torch.uint8)
    theirs, ours = torch.zeros(n + 2 * shift, dtype=torch.uint8), nt.zeros(n + 2 * shift, dtype=nt.uint8)
    theirs[shift:-shift] = y
    ours[shift:-shift] = nt.tensor(y.tolist(), dtype=nt.uint8)
    assert ours.tolist() == theirs.tolist()
