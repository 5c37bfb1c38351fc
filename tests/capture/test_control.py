"""cond, while_loop, scan and map beside PyTorch: results, gradients and errors, also in compiled functions."""

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
    "map": lambda m, h: h.map(lambda v, k: (v + k).sum(), table(m), m.ones(2)),
    "while": lambda m, h: h.while_loop(
        lambda i, a: i < 3, lambda i, a: (i + 1, a * 2), (m.tensor(0), m.ones(2))
    ),
    "true": lambda m, h: m.cond(m.tensor(True), lambda a: a + 1, lambda a: a - 1, (table(m),)),
    "false": lambda m, h: h.cond(table(m).sum() < 0, lambda a: a.sin(), lambda a: a.cos(), (table(m),)),
}


def flat(result: Any) -> list:
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
    x = table(nt).requires_grad_()
    nt.cond(x.sum() > 0, lambda a: a * 3, lambda a: a, (x,)).sum().backward()
    assert x.grad.tolist() == [[3.0, 3.0]] * 3


REFUSED = {
    "pred": lambda m, h: m.cond(m.ones(2).bool(), lambda a: a, lambda a: a, (table(m),)),
    "operands": lambda m, h: m.cond(m.tensor(True), lambda a: a, lambda a: a, table(m)),
    "loop": lambda m, h: h.while_loop(3, lambda i: i, (table(m),)),
    "combine": lambda m, h: h.scan(3, table(m), table(m)),
    "dim": lambda m, h: h.scan(lambda c, v: (c, v), m.zeros(2), table(m), dim=5),
    "reverse": lambda m, h: h.scan(lambda c, v: (c, v), m.zeros(2), table(m), reverse=3),
    "empty": lambda m, h: h.map(lambda v: v, m.ones(0, 2)),
    "mapped": lambda m, h: h.map(lambda v: v, 3),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", REFUSED)
def test_errors_are_pytorchs(name: str) -> None:
    told = []
    for m, h in BOTH:
        with pytest.raises((RuntimeError, IndexError)) as error:
            REFUSED[name](m, h)
        told.append((error.type, str(error.value).split("\n")[0]))
    assert told[0] == told[1]


def test_what_changes_its_shape_raises() -> None:
    with pytest.raises(RuntimeError, match="same shapes"):
        ours.while_loop(lambda a: a.sum() < 9, lambda a: (nt.cat([a, a]),), (nt.ones(2),))
    with pytest.raises(RuntimeError, match="the carry must keep"):
        ours.scan(lambda c, v: (v.sum(), v), nt.zeros(2), table(nt))
    with pytest.raises(RuntimeError, match=r"must return \(carry, y\)"):
        ours.scan(lambda c, v: c, nt.zeros(2), table(nt))
    with pytest.raises(RuntimeError, match="consistent"):
        ours.map(lambda v: v[0], (nt.ones(2), nt.ones(3)))
