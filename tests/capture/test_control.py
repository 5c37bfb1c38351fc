"""cond, while_loop, scan, map and associative_scan beside PyTorch: results, gradients and errors, also in compiled
functions."""

from typing import Any

import narthex as nt
import pytest
import torch
from narthex import _higher_order_ops as ours
from torch import _higher_order_ops as theirs

BOTH = ((nt, ours), (torch, theirs))


def table(m: Any) -> Any:
    return m.arange(6.0).view(3, 2)


PROGRAMS = {
    "scan": lambda m, h: h.scan(lambda c, v: (c + v, c * v), m.zeros(2), table(m)),
    "reverse": lambda m, h: h.scan(lambda c, v: (c + v, c * v), m.zeros(2), table(m), reverse=True),
    "columns": lambda m, h: h.scan(lambda c, v: (c + v, c * v), m.zeros(3), table(m), dim=1),
    "a tree of results": lambda m, h: h.scan(
        lambda c, v: ((c[0] + v,), {"a": c[0] * v, "b": v.sum()}), (m.zeros(3),), table(m), dim=1
    ),
    "slices of several": lambda m, h: h.scan(
        lambda c, v: (c + v["a"], v["a"] * v["b"]), m.zeros(2), {"a": table(m), "b": m.ones(4, 2)}
    ),
    "map": lambda m, h: h.map(lambda v, k: (v + k).sum(), table(m), m.ones(2)),
    "map of trees": lambda m, h: h.map(
        lambda v, k: {"a": v[0] * k, "b": (v[1].sum(),)}, (table(m), table(m) + 1), 3
    )["b"],
    "nothing mapped": lambda m, h: [] if h.map(lambda v: None, table(m)) is None else [m.ones(1)],
    "prefixes": lambda m, h: h.associative_scan(lambda a, b: a + b, table(m), 0, combine_mode="generic"),
    "prefixes of matrices": lambda m, h: h.associative_scan(
        lambda a, b: a @ b, m.arange(20.0).view(5, 2, 2) / 9, 0, combine_mode="generic"
    ),
    "prefixes of rows": lambda m, h: h.associative_scan(
        lambda a, b: (a[0] * b[0], a[1] * b[0].sum() + b[1]), (table(m), table(m) + 1), -2, True, "generic"
    ),
    "while": lambda m, h: h.while_loop(
        lambda i, a: i < 3, lambda i, a: (i + 1, a * 2), (m.tensor(0), m.ones(2))
    ),
    "while, a number": lambda m, h: h.while_loop(lambda i, a: i < 3, lambda i, a: [i + 1, a * 2], (0, m.ones(2)))[1],
    "while, one tensor": lambda m, h: h.while_loop(lambda a: a.sum() < 30, lambda a: a * 2, (m.ones(2),)),
    "while, a tree": lambda m, h: h.while_loop(
        lambda i, d: i < 2, lambda i, d: (i + 1, {"a": d["a"] * 2}), (m.tensor(0), {"a": m.ones(2)})
    )[1]["a"],
    "while, no step": lambda m, h: h.while_loop(lambda a: False, lambda a: (a + 1,), (table(m),)),
    "while, nothing": lambda m, h: h.while_loop(lambda: False, lambda: (), ()),
    "true": lambda m, h: m.cond(m.tensor(True), lambda a: a + 1, lambda a: a - 1, (table(m),)),
    "false": lambda m, h: h.cond(table(m).sum() < 0, lambda a: a.sin(), lambda a: a.cos(), (table(m),)),
}


def flat(result: Any) -> list:
    if isinstance(result, dict):
        result = tuple(result.values())
    if isinstance(result, (tuple, list)):
        return [leaf for part in result for leaf in flat(part)]
    return [result.tolist()]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PROGRAMS)
def test_results(name: str) -> None:
    mine, real = (flat(PROGRAMS[name](m, h)) for m, h in BOTH)
    torch.testing.assert_close(mine, real)
    compiled = nt.compile(lambda: PROGRAMS[name](nt, ours))
    torch.testing.assert_close(flat(compiled()), real)


@pytest.mark.filterwarnings("ignore")
def test_gradients() -> None:
    def gradient(m: Any, h: Any) -> list:
        x = table(m).requires_grad_()
        carry, ys = h.scan(lambda c, v: (c * v, c + v), m.ones(2), x)
        (carry.sum() + ys.sum()).backward()
        return x.grad.tolist()

    assert gradient(nt, ours) == gradient(torch, theirs)
    for of in (
        lambda m, h, x: h.associative_scan(lambda a, b: a * b.sin(), x, 0, combine_mode="generic"),
        lambda m, h, x: h.map(lambda v, k: (v * k).sin(), x, x.sum(0)),
        lambda m, h, x: h.while_loop(lambda n, v: n < 3, lambda n, v: (n + 1, v * x.sin()), (m.tensor(0), x * 1))[1],
    ):
        rows = []
        for m, h in BOTH:
            x = (table(m) / 5).requires_grad_()
            of(m, h, x).sum().backward()
            rows.append(flat(x.grad))
        torch.testing.assert_close(*rows, rtol=1e-4, atol=1e-5)
    x = table(nt).requires_grad_()
    nt.cond(x.sum() > 0, lambda a: a * 3, lambda a: a, (x,)).sum().backward()
    assert x.grad.tolist() == [[3.0, 3.0]] * 3


def loop(h: Any, body_fn: Any, *carried: Any, cond_fn: Any = lambda *now: now[0].sum() < 3) -> Any:
    return h.while_loop(cond_fn, body_fn, carried)


REFUSED = {
    "pred": lambda m, h: m.cond(m.ones(2).bool(), lambda a: a, lambda a: a, (table(m),)),
    "operands": lambda m, h: m.cond(m.tensor(True), lambda a: a, lambda a: a, table(m)),
    "loop": lambda m, h: h.while_loop(3, lambda i: i, (table(m),)),
    "carried": lambda m, h: h.while_loop(lambda i: i < 3, lambda i: (i + 1,), (1.5,)),
    "a text": lambda m, h: loop(h, lambda i, a: (i + 1, a), m.tensor(0), "x"),
    "sizes": lambda m, h: loop(h, lambda i, a: (i + 1, m.cat([a, a])), m.tensor(0), m.ones(2)),
    "strides": lambda m, h: loop(h, lambda i, a: (i + 1, (a * 2).t()), m.tensor(0), m.ones(2, 3)),
    "dtype": lambda m, h: loop(h, lambda i, a: (i + 1, a.double()), m.tensor(0), m.ones(2)),
    "device": lambda m, h: loop(h, lambda i: (i.to("meta"),), m.tensor(0)),
    "count": lambda m, h: loop(h, lambda i, a: (i + 1,), m.tensor(0), m.ones(2)),
    "what it gives": lambda m, h: loop(h, lambda i: ("x",), m.tensor(0)),
    "a condition of two": lambda m, h: loop(h, lambda a: (a * 2,), m.ones(2), cond_fn=lambda a: a < 3),
    "a condition of one": lambda m, h: loop(h, lambda a: (a * 2,), m.ones(1), cond_fn=lambda a: a < 3),
    "a condition of ints": lambda m, h: loop(h, lambda a: (a * 2,), m.tensor(1), cond_fn=lambda a: 3 - a),
    "always": lambda m, h: loop(h, lambda a: (a * 2,), m.tensor(1), cond_fn=lambda a: True),
    "a condition that is a tuple": lambda m, h: loop(h, lambda a: (a * 2,), m.tensor(1), cond_fn=lambda a: (a < 3,)),
    "combine": lambda m, h: h.scan(3, table(m), table(m)),
    "dim": lambda m, h: h.scan(lambda c, v: (c, v), m.zeros(2), table(m), dim=5),
    "reverse": lambda m, h: h.scan(lambda c, v: (c, v), m.zeros(2), table(m), reverse=3),
    "no init": lambda m, h: h.scan(lambda c, v: (c, v), (), table(m)),
    "init": lambda m, h: h.scan(lambda c, v: (c, v), 3, table(m)),
    "xs": lambda m, h: h.scan(lambda c, v: (c, v), m.zeros(2), [table(m), 3]),
    "no slices": lambda m, h: h.scan(lambda c, v: (c, v), m.zeros(2), m.ones(0, 2)),
    "too few dimensions": lambda m, h: h.scan(lambda c, v: (c, v), m.zeros(3), [table(m), m.ones(3)], dim=1),
    "carry": lambda m, h: h.scan(lambda c, v: (v.sum(), v * 1), m.zeros(2), table(m)),
    "dtype of the carry": lambda m, h: h.scan(lambda c, v: (c.double(), v * 1), m.zeros(2), table(m)),
    "empty": lambda m, h: h.map(lambda v: v, m.ones(0, 2)),
    "mapped": lambda m, h: h.map(lambda v: v, 3),
    "mapped sizes": lambda m, h: h.map(lambda v: v[0], (m.ones(2), m.ones(3))),
    "mapped to numbers": lambda m, h: h.map(lambda v: 3, table(m)),
    "prefixes, dim": lambda m, h: h.associative_scan(lambda a, b: a + b, table(m), 5, combine_mode="generic"),
    "prefixes, function": lambda m, h: h.associative_scan(3, table(m), 0, combine_mode="generic"),
    "prefixes, mode": lambda m, h: h.associative_scan(lambda a, b: a + b, table(m), 0, combine_mode="x"),
    "prefixes, reverse": lambda m, h: h.associative_scan(lambda a, b: a + b, table(m), 0, 3, "generic"),
    "prefixes of nothing": lambda m, h: h.associative_scan(lambda a, b: a + b, m.ones(0, 2), 0, False, "generic"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", REFUSED)
def test_errors_are_pytorchs(name: str) -> None:
    told = []
    torch._dynamo.reset()  # else it leaves sizes open that were others before
    for m, h in BOTH:
        with pytest.raises((RuntimeError, IndexError, ValueError, AssertionError)) as error:
            REFUSED[name](m, h)
        text = str(error.value).replace("narthex._tensor.", "torch.")
        told.append((error.type.__name__, text))
    (mine, text), (real, whole) = told
    assert mine == real and text in whole


def test_what_changes_its_structure_raises() -> None:
    with pytest.raises(RuntimeError, match=r"return a tuple \(next_carry, y\)"):
        ours.scan(lambda c, v: (c, v, v), nt.zeros(2), table(nt))
    with pytest.raises(RuntimeError, match="the same structure"):
        ours.map(lambda v: [v] * int(v[0] + 1), table(nt))


def test_names_are_modules_and_functions() -> None:
    from narthex._higher_order_ops.while_loop import while_loop

    assert ours.while_loop is while_loop and nt.cond is ours.cond
