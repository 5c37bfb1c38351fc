"""torch.autograd.Function beside PyTorch: the same classes, made for both."""

from __future__ import annotations

import gc
import weakref
from collections import namedtuple
from types import SimpleNamespace
from typing import Any

import narthex as nt
import narthex.autograd.function as nt_function
import pytest
import torch

from tests.front.both import close, same

ONCE = {nt: nt_function.once_differentiable, torch: torch.autograd.function.once_differentiable}


def classes(m: Any) -> SimpleNamespace:
    """The Functions of these tests, for module `m`."""
    return SimpleNamespace(**of_powers(m), **of_factors(m))


def of_powers(m: Any) -> dict[str, Any]:
    class Exp(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, g):
            (y,) = ctx.saved_tensors
            return g * y

    class Mixed(m.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor, y, flag=None):
            ctx.save_for_backward(x, None, y)
            ctx.factor = factor
            return x * y * factor, "text", x + y

        @staticmethod
        def backward(ctx, g, none, h):
            x, nothing, y = ctx.saved_tensors
            assert nothing is None and none is None
            first = g * y * ctx.factor + h if ctx.needs_input_grad[0] else None
            return first, None, g * x * ctx.factor + h, None

    class Setup(m.autograd.Function):
        @staticmethod
        def forward(x, power=2):
            return x**power

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, ctx.power = inputs
            ctx.save_for_backward(x)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * ctx.power * x ** (ctx.power - 1), None

    return {k: v for k, v in locals().items() if k != "m"}


def of_factors(m: Any) -> dict[str, Any]:
    class Double(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            x.mul_(2)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 2

    class Two(m.autograd.Function):
        materialize = True
        seen: list = []

        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(Two.materialize)
            a, b = x * 2, x > 1
            ctx.mark_non_differentiable(b)
            return a, b, x * 3

        @staticmethod
        def backward(ctx, g, _, h):
            Two.seen.append([None if t is None else t.tolist() for t in (g, h)])
            return (0 if g is None else g * 2) + (0 if h is None else h * 3)

    class Once(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        @ONCE[m]
        def backward(ctx, g):
            return g * 2

    class Same(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 5

    return {k: v for k, v in locals().items() if k != "m"}


def numbers(m: Any) -> list[Any]:
    """Values, gradients and second gradients of all of them."""
    c, out = classes(m), []
    x = m.tensor([0.5, 1.5, -1.0], requires_grad=True)
    y = m.tensor([[2.0], [3.0]], requires_grad=True)
    e = c.Exp.apply(x * 1)
    (g,) = m.autograd.grad((e * e).sum(), x, create_graph=True)
    out += [e, g, m.autograd.grad(g.sum(), x)[0]]
    a, text, b = c.Mixed.apply(x, 3.0, y)
    g, h = m.autograd.grad((a * b).sum(), (x, y), create_graph=True)
    out += [a, b, g, h, *m.autograd.grad((g * g).sum() + h.sum(), (x, y)), text]
    a, _, _ = c.Mixed.apply(x.detach(), 3.0, y)
    out += m.autograd.grad(a.sum(), y)
    for s in (c.Setup.apply(x), c.Setup.apply(x, 3)):
        (g,) = m.autograd.grad(s.sum(), x, create_graph=True)
        out += [s, g, *m.autograd.grad(g.sum(), x)]
    z = x * 1
    before = z + 0
    d = c.Double.apply(z)
    assert d is z
    out += [d, *m.autograd.grad((d * d + before).sum(), x)]
    for materialize in (True, False):
        c.Two.materialize = materialize
        first, mask, second = c.Two.apply(x)
        assert not mask.requires_grad and first.requires_grad and second.requires_grad
        out += m.autograd.grad(second.sum(), x)
    out += c.Two.seen
    s = c.Same.apply(x)
    assert s is not x and s.requires_grad
    out += [s, *m.autograd.grad(s.sum(), x)]
    (g,) = m.autograd.grad((c.Once.apply(x) ** 2).sum(), x, create_graph=True)
    out += [g, g.requires_grad]
    with m.no_grad():
        q = c.Exp.apply(x)
    out += [q, q.requires_grad, c.Exp.apply(x.detach()).requires_grad, c.Exp.apply(x).grad_fn.name()]
    c.Exp.apply(x).sum().backward()
    out.append(x.grad)
    return out


def test_numbers() -> None:
    mine, theirs = numbers(nt), numbers(torch)
    assert len(mine) == len(theirs)
    for k, (a, b) in enumerate(zip(mine, theirs)):
        if isinstance(a, nt.Tensor):
            assert torch.allclose(torch.tensor(a.tolist()), b.detach()), k
        else:
            assert a == b, k


def wrong(m: Any, what: str) -> None:
    """Raises, as its name says."""
    c = classes(m)
    x = m.tensor([1.0, 2.0, 3.0], requires_grad=True)
    forms = {
        "count": lambda g: (g, g),
        "none": lambda g: (),
        "type": lambda g: 3,
        "size": lambda g: g[:2],
        "raise": lambda g: {}[0],
    }

    class Wrong(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            if what == "save":
                ctx.save_for_backward(3)
            if what == "dirty":
                ctx.mark_dirty(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return forms[what](g)

    class Empty(m.autograd.Function):
        pass

    class NoBackward(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    if what == "forward":
        Empty.apply(x)
    elif what == "backward":
        NoBackward.apply(x).sum().backward()
    elif what == "twice":
        y = c.Exp.apply(x).sum()
        y.backward()
        y.backward()
    elif what == "leaf":
        c.Double.apply(x)
    elif what == "written argument":
        z = x * 1
        y = c.Setup.apply(z)
        z.add_(1)
        y.sum().backward()
    elif what == "written result":
        y = c.Exp.apply(x)
        y.add_(1)
        y.sum().backward()
    elif what == "once":
        (g,) = m.autograd.grad((c.Once.apply(x) ** 2).sum(), x, create_graph=True)
        g.sum().backward()
    else:
        Wrong.apply(x).sum().backward()


@pytest.mark.parametrize(
    "what",
    [
        "count",
        "none",
        "type",
        "size",
        "raise",
        "save",
        "dirty",
        "forward",
        "backward",
        "twice",
        "leaf",
        "written argument",
        "written result",
        "once",
    ],
)
def test_errors(what: str) -> None:
    texts = []
    for m in (nt, torch):
        with pytest.raises(Exception) as caught:
            wrong(m, what)
        texts.append((caught.type, str(caught.value)))
    assert texts[0] == texts[1]


def test_views_that_are_written() -> None:
    c = classes(nt)
    x = nt.tensor([1.0, 2.0, 3.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="modified inplace|is being"):
        c.Same.apply(x * 1).mul_(2)
    rows = []
    for m in (nt, torch):
        x = m.tensor([1.0, 2.0, 3.0], requires_grad=True)
        y = x.sin()
        part = classes(m).Double.apply(y[:2])
        (y.exp().sum() + part.sum()).backward()
        rows.append([y.tolist(), part.tolist(), x.grad.tolist(), part._is_view()])
    torch.testing.assert_close(*rows)


def test_nothing_stays() -> None:
    """What is saved goes with the graph, also when the result itself is saved."""
    c = classes(nt)
    x = nt.tensor([1.0, 2.0, 3.0], requires_grad=True)
    c.Exp.apply(x).sum().backward()
    gc.collect()
    nt._C.alloc_watch(True)
    try:
        before = nt._C.alloc_live()
        gc.disable()
        for _ in range(20):
            c.Exp.apply(x)
            c.Double.apply(x * 1)
            c.Two.apply(x)
            y = c.Exp.apply(x)
            nt.autograd.grad(y.sum(), x, create_graph=True)
        del y
        assert nt._C.alloc_live() <= before
    finally:
        gc.enable()
        nt._C.alloc_watch(False)


def test_memory_after_backward() -> None:
    """Backward frees what was saved while the result lives on."""
    kept = []

    class Keep(nt.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 2
            kept.append(weakref.ref(y))
            ctx.save_for_backward(y)
            return x * 3

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    z = Keep.apply(nt.ones(4, requires_grad=True))
    assert kept[0]() is not None
    z.sum().backward()
    assert kept[0]() is None


@pytest.mark.parametrize("mode", [None, "max-autotune"])
def test_compiled(mode: str | None) -> None:
    """A call splits the graph; the numbers stay."""
    c = classes(nt)

    def f(x):
        y = x * 2 + 1
        z = c.Exp.apply(y * 0.1)
        return (z * z + y).sum()

    got = []
    for g in (f, nt.compile(f, mode=mode) if mode else nt.compile(f)):
        for _ in range(3):
            x = nt.tensor([0.5, 1.5, -1.0], requires_grad=True)
            loss = g(x)
            loss.backward()
            got.append((loss.detach(), x.grad))
    for loss, grad in got[1:]:
        close(loss, torch.from_dlpack(got[0][0]))
        close(grad, torch.from_dlpack(got[0][1]))


def test_same_bits() -> None:
    """A Function of one operator gives that operator's bits."""
    c = classes(nt)
    x = nt.randn(100, requires_grad=True)
    same(c.Exp.apply(x), torch.from_dlpack(x.exp().detach()))


Pair = namedtuple("Pair", "a b")


@pytest.mark.parametrize("m", [nt, torch], ids=["narthex", "torch"])
def test_calls_of_every_kind(m: Any) -> None:
    """What a call finds on its way: many arguments, keywords, results of other kinds, a forward that raises."""

    class Sum(m.autograd.Function):
        @staticmethod
        def forward(ctx, *given, kind=None):
            tensors = [each for each in given if isinstance(each, m.Tensor)]
            total = sum(tensors[1:], tensors[0])
            ctx.save_for_backward(None, tensors[0], total)
            ctx.asked = (ctx.needs_input_grad, m.is_grad_enabled())
            ctx.n = len(given)
            if kind is Pair:
                return Pair(total, total.argmax())
            return {list: [total], tuple: (total, 3, total > 0), "input": tensors[0]}.get(kind, total)

        @staticmethod
        def backward(ctx, g, *rest):
            nothing, first, total = ctx.saved_tensors
            assert nothing is None and total.grad_fn is not None and total.shape == first.shape
            return (g,) * ctx.n

    x, many = m.ones(2, requires_grad=True), [m.ones(2) for _ in range(19)]
    total = Sum.apply(x, *many)
    assert total.tolist() == [20, 20] and total.grad_fn.name() == "SumBackward"
    total.sum().backward()
    assert x.grad.tolist() == [1, 1]
    assert not Sum.apply(*many).requires_grad and Sum.apply(x.detach(), 3, "a").grad_fn is None
    with m.no_grad():
        assert not Sum.apply(x, x).requires_grad

    class Kinds(Sum):
        @staticmethod
        def forward(ctx, kind, *given):
            return Sum.forward(ctx, kind, *given, kind=kind)

        @staticmethod
        def backward(ctx, *grads):
            return (None, *Sum.backward(ctx, *grads)[1:])

    whole, three, positive = Kinds.apply(tuple, x, x)
    assert whole.requires_grad and three == 3 and not positive.requires_grad
    (whole * 2).sum().backward()
    assert x.grad.tolist() == [5, 5]
    pair = Kinds.apply(Pair, x, x)
    assert type(pair) is tuple and pair[0].requires_grad and not pair[1].requires_grad
    same_one = Kinds.apply("input", x, x)
    assert same_one is not x and same_one.requires_grad and not same_one.is_leaf
    assert Kinds.apply(list, x, x)[0].grad_fn is None
    with pytest.raises(TypeError):
        Sum.apply(x, "a", other=3)
    with pytest.raises(IndexError):
        Sum.apply()
    assert m.is_grad_enabled() and Sum.apply(x, x).requires_grad


@pytest.mark.parametrize("m", [nt, torch], ids=["narthex", "torch"])
def test_arguments_among_the_results(m: Any) -> None:
    """An argument comes back as a view with the node as its history, beside results of every other kind."""

    class Back(m.autograd.Function):
        @staticmethod
        def forward(ctx, x, n, y):
            ctx.save_for_backward(x, y)
            return x, n, y, x * 2, "text"

        @staticmethod
        def backward(ctx, gx, gn, gy, gz, none):
            x, y = ctx.saved_tensors
            return gx * y + gz * 2, None, gy * x

    class Twice(Back):
        @staticmethod
        def forward(ctx, x):
            return x, x

        @staticmethod
        def backward(ctx, g, h):
            return g * 2 + h * 3

    x, y, n = m.tensor([1.0, 2.0], requires_grad=True), m.tensor([3.0, 4.0]), m.tensor([1, 2])
    first, whole, second, double, text = Back.apply(x, n, y)
    for given, back in ((x, first), (n, whole), (y, second)):
        assert back is not given and back.data_ptr() == given.data_ptr() and back._version == given._version
    assert text == "text" and whole.grad_fn is None and second.grad_fn is first.grad_fn and not first.is_leaf
    (first.sum() + double.sum() + second.sum()).backward()
    assert x.grad.tolist() == [5, 6]
    with pytest.raises(RuntimeError, match="modified inplace"):
        first.mul_(2)
    for args in ((x.detach(), n, y), (n, n, n)):
        assert all(part.grad_fn is None and part is not args[k] for k, part in enumerate(Back.apply(*args)[:3]))
    with m.no_grad():
        assert not Back.apply(x, n, y)[0].requires_grad
    a, b = Twice.apply(x)
    assert a is not x and b is not x and a.requires_grad and b.requires_grad


@pytest.mark.parametrize("m", [nt, torch], ids=["narthex", "torch"])
def test_a_context_that_is_set_up_after_a_forward_of_any_number(m: Any) -> None:
    class Sum(m.autograd.Function):
        @staticmethod
        def forward(*args):
            return args[0] + args[1]

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.n = len(inputs)

        @staticmethod
        def backward(ctx, g):
            return (g,) * ctx.n

    x = m.tensor([0.0, 1.0], requires_grad=True)
    assert m.autograd.grad(Sum.apply(x, x).sum(), x)[0].tolist() == [2.0, 2.0]


@pytest.mark.parametrize("m", [nt, torch], ids=["narthex", "torch"])
def test_a_context_that_is_set_up_after_forward(m: Any) -> None:
    """Forward with as many arguments as are given, and with a default; what setup_context is told and
    may say, and errors, which leave the modes as they were."""
    seen: list[Any] = []

    class Scale(m.autograd.Function):
        @staticmethod
        def forward(x, factor=2):
            seen.append(("forward", x.requires_grad, m.is_grad_enabled()))
            return x * factor, x.exp()

        @staticmethod
        def setup_context(ctx, inputs, output):
            seen.append((len(inputs), type(output), ctx.needs_input_grad, m.is_grad_enabled()))
            ctx.factor = inputs[1]
            ctx.save_for_backward(output[1])
            if ctx.factor == 5:
                ctx.mark_non_differentiable(output[1])
            if ctx.factor == 7:
                raise KeyError("seven")

        @staticmethod
        def backward(ctx, g, h):
            (y,) = ctx.saved_tensors
            return g * ctx.factor + h * y, None

    x = m.tensor([0.0, 1.0], requires_grad=True)
    for args in ((x, 3), (x,), (x.detach(), 3), (x, 5)):
        first, second = Scale.apply(*args)
        seen.append((first.tolist(), first.requires_grad, second.requires_grad))
        if first.requires_grad:
            seen.append([round(number, 4) for number in m.autograd.grad((first + second).sum(), x)[0].tolist()])
    with pytest.raises(KeyError, match="seven"):
        Scale.apply(x, 7)
    assert m.is_grad_enabled()
    needs = {True: (True, False), False: (False, False)}
    assert seen[:4] == [
        ("forward", True, False),
        (2, tuple, needs[True], False),
        ([0.0, 3.0], True, True),
        [4.0, 5.7183],
    ]
    assert seen[4:8] == [
        ("forward", True, False),
        (2, tuple, needs[True], False),
        ([0.0, 2.0], True, True),
        [3.0, 4.7183],
    ]
    assert seen[8:11] == [("forward", False, False), (2, tuple, needs[False], False), ([0.0, 3.0], False, False)]
    assert seen[11:15] == [
        ("forward", True, False),
        (2, tuple, needs[True], False),
        ([0.0, 5.0], True, False),
        [5.0, 5.0],
    ]
