"""Operators whose kernels and derivatives are Python functions: torch.library on both sides."""

import narthex as nt
import numpy
import pytest
import torch

BOTH = [torch, nt]


def operators(t):
    """A few operators in a namespace of their own."""
    name = "mine"

    @t.library.custom_op(f"{name}::scaled", mutates_args=())
    def scaled(x: t.Tensor, by: float = 2.0) -> t.Tensor:
        return t.from_numpy(x.detach().numpy() * by)

    scaled.register_fake(lambda x, by=2.0: t.empty_like(x))

    def setup(ctx, inputs, output):
        ctx.by = inputs[1]

    scaled.register_autograd(lambda ctx, g: (g * ctx.by, None), setup_context=setup)

    @t.library.custom_op(f"{name}::put", mutates_args={"out"})
    def put(x: t.Tensor, out: t.Tensor) -> None:
        out.copy_(x + 1)

    library = t.library.Library(name, "FRAGMENT")
    library.define("both(Tensor x, int n, *, bool flip=False) -> (Tensor, Tensor)")
    library.impl("both", lambda x, n, *, flip=False: (x * n, x - n) if not flip else (x - n, x * n), "CPU")
    library.define("seen(Tensor x) -> Tensor")
    library.impl("seen", lambda x: x * 3, "CompositeImplicitAutograd")
    return scaled, put, library


@pytest.fixture(scope="module")
def made():
    return {t: operators(t) for t in BOTH}


@pytest.mark.parametrize("t", BOTH)
def test_calls(t, made):
    x, ops = t.arange(3.0), t.ops.mine
    scaled, put, _ = made[t]
    assert scaled(x).tolist() == ops.scaled(x, 2.0).tolist() == ops.scaled.default(x, by=2.0).tolist() == [0, 2, 4]
    out = t.empty(3)
    assert put(x, out) is None and out.tolist() == [1, 2, 3]
    assert [r.tolist() for r in ops.both(x, 2)] == [[0, 2, 4], [-2, -1, 0]]
    assert [r.tolist() for r in ops.both(x, 2, flip=True)] == [[-2, -1, 0], [0, 2, 4]]
    for call in (lambda: scaled(), lambda: ops.both(x), lambda: ops.both(x, 2, True), lambda: ops.both(x, 2, no=1)):
        with pytest.raises((TypeError, RuntimeError)):
            call()
    with pytest.raises(AttributeError):
        ops.nothing  # noqa: B018


@pytest.mark.parametrize("t", BOTH)
def test_gradients(t, made):
    x = t.arange(3.0, requires_grad=True)
    made[t][0](x, 5.0).sum().backward()
    assert x.grad.tolist() == [5, 5, 5]
    x.grad = None
    t.ops.mine.seen(x).sum().backward()
    assert x.grad.tolist() == [3, 3, 3]


def test_without_a_derivative():
    @nt.library.custom_op("mine::alone", mutates_args=())
    def alone(x: nt.Tensor) -> nt.Tensor:
        return x.clone()

    y = alone(nt.ones(2, requires_grad=True))
    with pytest.raises(RuntimeError, match="mine::alone but no autograd formula was registered"):
        y.sum().backward()


def test_signatures_of_functions():
    for t in BOTH:

        def f(x: t.Tensor, y: t.Tensor | None, n: int, *, k: list[int], b: bool = True) -> tuple[t.Tensor, t.Tensor]:
            raise NotImplementedError

        assert t.library.infer_schema(f, mutates_args={"x"}) == (
            "(Tensor(a0!) x, Tensor? y, SymInt n, *, SymInt[] k, bool b=True) -> (Tensor, Tensor)"
        )
        with pytest.raises(ValueError, match="must have a type annotation"):
            t.library.infer_schema(lambda x: x, mutates_args=())


def test_compiled(made):
    def f(x):
        return nt.ops.mine.seen(x).sin() + made[nt][0](x, 3.0)

    x = nt.arange(4.0)
    assert nt.compile(f)(x).tolist() == f(x).tolist()


@pytest.fixture(scope="module")
def counting():
    """For each side: an operator that reads what it has written, where its arguments share memory."""

    def make(t):
        @t.library.custom_op("shared::count", mutates_args=("total", "twice"))
        def count(x: t.Tensor, total: t.Tensor, twice: t.Tensor) -> t.Tensor:
            total.add_(x.sum())
            twice.mul_(2)
            return x - 1

        count.register_fake(lambda x, total, twice: t.empty_like(x))
        return count

    return {t: make(t) for t in BOTH}


@pytest.mark.parametrize("mode", ["eager", None, "max-autotune", "reduce-overhead"])
@pytest.mark.parametrize(
    "call",
    [
        lambda count, x, y: count(x, y, y),
        lambda count, x, y: count(x, x, y),
        lambda count, x, y: count(x.t(), x[0], y),
        lambda count, x, y: count(x, y[0], y[1:]),
        lambda count, x, y: count(y, x, y.detach()[0]),
        lambda count, x, y: count(x, y, x + y),
    ],
)
def test_arguments_that_share_memory(counting, call, mode):
    """What is written through one argument is seen through another, in a graph as well."""

    def run(t, wrap):
        count = counting[t]

        def f(a):
            x, y = a * 2, a + 1
            return call(count, x, y), x, y

        return [each.tolist() for each in wrap(f)(t.arange(9.0).view(3, 3))]

    mine = run(nt, (lambda f: f) if mode == "eager" else lambda f: nt.compile(f, mode=mode, fullgraph=True))
    assert mine == run(torch, lambda f: f)


@pytest.fixture(scope="module")
def opaque():
    """For each side: operators whose kernels no trace could follow (numpy, elements that decide)."""

    def make(t):
        @t.library.custom_op("opaque::sine", mutates_args=())
        def sine(x: t.Tensor) -> t.Tensor:
            return t.from_numpy(numpy.sin(x.detach().numpy()))

        sine.register_fake(lambda x: t.empty_like(x))
        keep = lambda ctx, inputs, output: ctx.save_for_backward(inputs[0])  # noqa: E731
        sine.register_autograd(lambda ctx, g: g * ctx.saved_tensors[0].cos(), setup_context=keep)

        @t.library.custom_op("opaque::decide", mutates_args=())
        def decide(x: t.Tensor) -> t.Tensor:
            return x * 2 if x.sum().item() > 0 else x - 1

        decide.register_fake(lambda x: t.empty_like(x))

        @t.library.custom_op("opaque::count", mutates_args=("total",))
        def count(xs: list[t.Tensor], total: t.Tensor, by: float, *, flip: bool = False) -> tuple[t.Tensor, t.Tensor]:
            total.numpy()[...] += by
            both = t.from_numpy(numpy.stack([x.numpy() for x in xs]).sum(0))
            return (-both if flip else both), both.sum(0)

        count.register_fake(lambda xs, total, by, *, flip=False: (t.empty(xs[0].shape), t.empty_like(xs[0][0])))

        @t.library.custom_op("opaque::bump", mutates_args=("x",))
        def bump(x: t.Tensor) -> None:
            x.numpy()[...] += 1

        return sine, decide, count, bump

    return {t: make(t) for t in BOTH}


@pytest.mark.parametrize("mode", ["eager", None, "max-autotune", "reduce-overhead"])
def test_nodes_of_graphs(opaque, mode):
    """One graph holds their calls, whatever their kernels do: results, gradients and what is written are eager's."""

    def run(t):
        sine, decide, count, bump = opaque[t]

        def f(x, total):
            y = x * 1
            bump(y)
            a, b = count([sine(y), decide(x)], total, 1.5, flip=True)
            return a + b, total * 2

        f = f if mode == "eager" or t is torch else t.compile(f, fullgraph=True, mode=mode)
        for n in (3, 4, 2, 3):  # sizes that become open
            x, total = t.arange(2.0 * n).view(n, 2) - 2, t.zeros(2)
            yield [*f(x, total), total]

    for ours, theirs in zip(run(nt), run(torch), strict=True):
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(torch.tensor(a.tolist()), b)


@pytest.mark.parametrize("mode", [None, "max-autotune", "reduce-overhead"])
def test_gradients_of_nodes(opaque, mode):
    def step(t, compiled):
        sine = opaque[t][0]
        w = t.arange(6.0).view(3, 2).div(5).requires_grad_()
        f = lambda x: sine(x @ w).pow(2).sum()  # noqa: E731
        (t.compile(f, fullgraph=True, mode=mode) if compiled else f)(t.ones(4, 3)).backward()
        return w.grad.view(-1).tolist()

    assert step(nt, True) == step(nt, False) == pytest.approx(step(torch, False), rel=1e-5)


def test_the_graph_shows_them(opaque):
    seen = []

    def backend(module, inputs):
        seen.extend(str(node.target) for node in module.graph.nodes if node.op == "call_function")
        return module.forward

    sine, _, _, bump = opaque[nt]

    def f(x):
        y = sine(x)
        bump(y)
        return y

    assert nt.compile(f, fullgraph=True, backend=backend)(nt.zeros(2)).tolist() == [1, 1]
    assert seen[0] == "opaque.sine.default" and "functional.opaque__bump.default" in seen
    program = nt.export.export(nt.nn.Identity(), (nt.ones(2),))
    assert program.module()(nt.ones(2)).tolist() == [1, 1]


def test_how_often_they_are_called():
    """As often as the program says, also where the engine tries what is quick; equal calls are two."""
    calls = []

    @nt.library.custom_op("opaque::seen_by", mutates_args=())
    def seen_by(x: nt.Tensor) -> nt.Tensor:
        calls.append(x)
        return x.clone()

    seen_by.register_fake(lambda x: nt.empty_like(x))
    for mode in (None, "max-autotune", "reduce-overhead"):
        calls.clear()
        f = nt.compile(lambda x: seen_by(x * 2) + seen_by(x * 2), fullgraph=True, mode=mode)
        for k in range(3):
            assert f(nt.full((2,), float(k))).tolist() == [4.0 * k] * 2
        assert [x.tolist() for x in calls] == [[2.0 * k] * 2 for k in (0, 0, 1, 1, 2, 2)], (
            mode
        )  # they may keep what they get


def test_what_kernels_raise_in_graphs():
    def make(name, kernel, shape):
        def fn(x: nt.Tensor) -> nt.Tensor:
            return kernel(x)

        fn.__annotations__ = {"x": nt.Tensor, "return": nt.Tensor}
        op = nt.library.custom_op(f"opaque::{name}", fn, mutates_args=())
        op.register_fake(shape)
        return op

    def fail(x):
        raise ValueError("no way")

    x, like = nt.ones(3), lambda x: nt.empty_like(x)
    for mode in (None, "max-autotune", "reduce-overhead"):
        fails = make(f"fails_{mode}".replace("-", "_"), fail, like)
        with pytest.raises(ValueError, match="no way"):
            nt.compile(lambda x, op=fails: op(x * 2) + 1, fullgraph=True, mode=mode)(x)
    other = make("other", lambda x: nt.ones(7), like)
    f = nt.compile(lambda x: other(x * 2) + 1, fullgraph=True, mode="max-autotune")
    assert f(x).tolist() == [2] * 7  # the shape rule is wrong: the call is made again, uncompiled
    unknown = make("unknown", lambda x: x * 2, fail)
    assert nt.compile(lambda x: unknown(x) + 1)(x).tolist() == [3, 3, 3]  # uncompiled


def test_an_operator_takes_anothers_place():
    """A module that is loaded again: graphs call what has the name now; of another signature graphs hold none."""

    def make(by, *more):
        source = nt.library.Library("again", "FRAGMENT")
        source.define(f"times(Tensor x{''.join(more)}) -> Tensor")
        source.impl("times", lambda x, *rest: x * by, "CPU")
        source._register_fake("times", lambda x, *rest: nt.empty_like(x))
        return source

    for by, more in ((2, ()), (3, ()), (4, (", int n=1",))):
        source = make(by, *more)
        assert nt.compile(lambda x: nt.ops.again.times(x) + 1, fullgraph=True)(nt.ones(2)).tolist() == [by + 1] * 2
        source._destroy()


def test_what_is_not_there_says_so(made):
    for call in (
        lambda: nt.library.Library("aten", "IMPL"),
        lambda: nt.library.Library("_", "IMPL").fallback(print, "AutocastCPU"),
        lambda: nt.library.Library("mine", "FRAGMENT").impl("seen", lambda x: x, "AutocastCPU"),
    ):
        with pytest.raises(NotImplementedError):
            call()
    with pytest.raises(RuntimeError, match="there already"):
        nt.library.define("mine::seen", "(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match="schema"):
        nt.library.define("mine::odd", "Tensor x")
    library = nt.library.Library("gone", "DEF")
    library.define("x() -> ()")
    library._destroy()
    with pytest.raises(AttributeError):
        nt.ops.gone.x  # noqa: B018


def test_operators_under_vmap():
    """Slice by slice, so that a kernel may ask for elements; by a rule that was registered."""
    results = []
    for m in (nt, torch):

        @m.library.custom_op(f"mapped::{m.__name__}_scale", mutates_args=())
        def scale(x: m.Tensor, y: m.Tensor, by: float = 2.0) -> m.Tensor:
            return m.tensor(x.numpy() * y.numpy() * by)  # noqa: B023

        @m.library.custom_op(f"mapped::{m.__name__}_ruled", mutates_args=())
        def ruled(x: m.Tensor) -> m.Tensor:
            return x * 2

        @ruled.register_vmap
        def rule(info, in_dims, x, ruled=ruled, seen=results):
            seen.append((info.batch_size, info.randomness, in_dims))
            return ruled(x) + 1, in_dims[0]

        x, y = m.arange(6.0).reshape(2, 3), m.ones(3)
        results.append(m.vmap(scale, in_dims=(0, None))(x, y).tolist())
        results.append(m.vmap(m.vmap(scale))(x, x).tolist())
        results.append(m.vmap(ruled)(x).tolist())
    assert results[:4] == results[4:] and results[2] == (2, "error", (0,))


@pytest.mark.parametrize("t", BOTH)
def test_fallbacks(t):
    """Every operator without a kernel for a device is one function's."""
    own = t.library.Library("fallen", "DEF")
    own.define("twice(Tensor x) -> Tensor")
    own.define("kept(Tensor x) -> Tensor")
    own.impl("kept", lambda x: x + 1, "CPU")
    with pytest.raises(NotImplementedError, match="Could not run 'fallen::twice'"):
        t.ops.fallen.twice(t.ones(2))
    with pytest.raises(RuntimeError, match="on the global namespace"):
        own.fallback(lambda op, *args: None, "CPU")
    everything, seen = t.library.Library("_", "IMPL"), []
    with pytest.raises(AssertionError, match="dispatch_key must not be empty"):
        everything.fallback(lambda op, *args: None)
    everything.fallback(lambda op, *args, **kwargs: seen.append(str(op)) or args[0] * 2, "CPU")
    try:
        assert t.ops.fallen.twice(t.ones(2)).tolist() == [2, 2] and t.ops.fallen.kept(t.ones(2)).tolist() == [2, 2]
    finally:
        everything._destroy()
    assert seen == ["fallen.twice.default"]
    with pytest.raises(NotImplementedError, match="Could not run 'fallen::twice'"):
        t.ops.fallen.twice(t.ones(2))
    own._destroy()


@pytest.mark.parametrize("t", BOTH)
def test_what_may_not_be_overridden(t):
    """A second kernel or shape rule takes the first one's place, unless allow_override says that it may not."""
    own = t.library.Library("allowed", "DEF")
    own.define("f(Tensor x) -> Tensor")
    own.impl("f", lambda x: x + 1, "CPU")
    with pytest.raises(RuntimeError, match="already a kernel registered from python overriding f's behavior for CPU"):
        own.impl("f", lambda x: x + 2, "CPU", allow_override=False)
    assert t.ops.allowed.f(t.ones(1)).tolist() == [2]
    t.library.register_fake("allowed::f", lambda x: x, lib=own)
    with pytest.raises(RuntimeError, match="the operator allowed::f already has a fake impl registered"):
        t.library.register_fake("allowed::f", lambda x: x, lib=own, allow_override=False)
    t.library.register_fake("allowed::f", lambda x: x, lib=own)
    with pytest.raises(TypeError, match="mutates_args"):
        t.library.custom_op("allowed::g")
    own._destroy()


@pytest.mark.parametrize("t", BOTH)
def test_a_library_comes_first(t):
    library = t.library.Library("first", "DEF")

    @t.library.define(library, "plus(Tensor x, int n) -> Tensor")
    def plus(x, n):
        return x + n

    library.define("twice(Tensor x) -> Tensor")

    @t.library.impl(library, "twice", "CPU")
    def twice(x):
        return x * 2

    assert plus(t.ones(1), 2) == 3 and twice(t.ones(1)) == 2
    assert t.ops.first.twice(t.ops.first.plus(t.ones(1), 1)).item() == 4
    library._destroy()
