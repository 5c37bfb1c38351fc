"""Operators whose kernels and derivatives are Python functions: torch.library on both sides."""

import narthex as nt
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


def test_what_is_not_there_says_so():
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
