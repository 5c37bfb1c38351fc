"""torch.autograd.forward_ad beside PyTorch: tangents, their errors, levels, views, writes, Functions.

What each operator gives, tests/ops/test_op_db.py compares (its way "forward")."""

from __future__ import annotations

import threading

import narthex as nt
import pytest
import torch
from both import LIBS, both, close

# With t the library, F its forward_ad, x a tensor, v a tangent, d the dual of both, w a dual that requires grad.
CALLS = """
F.unpack_dual(x)
F.make_dual(d, v)
F.make_dual(x, d)
F.make_dual(x, t.ones(3))
F.make_dual(x, v.double())
F.make_dual(x, v.to(t.complex64))
F.make_dual(t.arange(6), v)
F.make_dual(x, t.arange(6))
F.make_dual(x, 1.0)
F.make_dual(1.0, v)
F.make_dual(x, v, level=1)
F.unpack_dual(d, level=3)
F.enter_dual_level()
F.exit_dual_level(level=1)
t._C._exit_dual_level(level=-1)
F.make_dual(t.ones(1, 1).expand(2, 3), v)
F.make_dual(x.t(), v.t()).contiguous()
F.make_dual(x, v.t().contiguous().t())
F.unpack_dual(d).primal
F.unpack_dual(d).primal * 2
F.unpack_dual(F.unpack_dual(d).primal[0])
F.unpack_dual(d.detach())
F.unpack_dual(d.data)
F.unpack_dual((d * 1).detach_())
d.detach_()
d
w
repr(w.grad_fn)[:13]
d + 1
1 - d
d * d
d * 2
d / x
x / d
d ** 2
2 ** d
d + v.double()
d.double()
d.half() * 2
d.to(t.complex64) * (1 + 2j)
(d * 1j).abs()
t.view_as_real(d * (1 + 1j)) * 2
(d * 1j).real + (d * (2 + 1j)).imag + (d * 1j).conj().imag
d.exp().sin()
d.sum()
d.mean(0)
d.max()
d.max(1)
d.sort(1)
d.cumprod(0)
d.var(1)
d.norm()
d @ d.t()
x @ d.t()
t.addmm(x[:, :2], d, d.t())
t.cat([d, x, d])
t.stack([x, d])
t.where(x > 0, d, 0.0)
d[0]
d[:, 1:]
d[[0, 1, 1]]
d.t()
d.reshape(-1)
d.unbind(1)
d.split(1)
d.chunk(2, 1)
d.as_strided((2,), (1,), 1)
d[1:].as_strided((2,), (1,), 4)
d.diagonal()
d.expand(2, 2, 3) * 1
d.sign()
d.floor()
d.eq(d)
d.argmax()
t.zeros_like(d)
d.clone()
d.contiguous() is d
d.to(t.float32) is d
t.einsum('ij,kj->ik', d, d)
t.linalg.svdvals(d)
t.linalg.inv(d @ d.t() + t.eye(2) * 3)
t.nn.functional.softmax(d, -1)
t.nn.functional.layer_norm(d, (3,))
t.nn.functional.linear(d, x)
t.nn.functional.conv1d(d[None], d[:, None].expand(2, 2, 3) * 1)
t.nn.functional.cross_entropy(d, t.tensor([0, 2]))
t.nn.functional.max_pool1d(d[None], 2, return_indices=True)
t.nn.functional.ctc_loss(t.stack([d, d, d]).log_softmax(2), t.ones(2, 1, dtype=t.long), [3, 3], [1, 1])
t.add(d, d, out=t.empty(2, 3))
t.add(x, x, out=d * 1)
t.zeros(2, 3).copy_(d)
t.zeros(2, 3).add_(d)
t.zeros(2, 3).mul_(d)
t.arange(6).reshape(2, 3).copy_(d)
d.clone().mul_(d)
d.clone().mul_(2)
d.clone().pow_(3)
d.clone().exp_()
d.clone().zero_()
d.clone().fill_(2)
d.clone().copy_(x)
d.clone().uniform_()
d.clone().eq_(d)
d.clone().masked_fill_(x > 0, 2.0)
d.clone().index_put_((t.tensor([0]),), d[1])
d.clone().clamp_(0)
d.clone().sub_(d).add_(d, alpha=3)
d.clone().t_()
d.clone().unsqueeze_(0)
d.clone().transpose_(0, 1).mul_(2)
d.clone().resize_(6)
t._foreach_add([d, x], 1)
w * 2
(w * w).sum()
t.autograd.grad((w * w).sum(), w)
t.autograd.grad((w.exp() * 2).sum(), w)
t.autograd.grad((w.sigmoid() * w).sum(), w)
t.autograd.grad(F.unpack_dual((w ** 3).sum()).tangent, w)
t.autograd.grad(F.unpack_dual(w.exp().sum()).tangent, w)
t.autograd.grad(F.unpack_dual((w @ w.t()).sum()).tangent, w)
"""


def values(t):
    forward = t.autograd.forward_ad
    x = t.tensor([[0.5, -1.25, 2.0], [1.5, 0.75, -0.5]])
    v = t.tensor([[1.0, 0.5, -2.0], [0.25, 3.0, -1.0]])
    return {"t": t, "F": forward, "x": x, "v": v}


def unpacked(t, value):
    """`value` with a pair (primal, tangent) for every tensor."""
    if isinstance(value, t.Tensor):
        tangent = t.autograd.forward_ad.unpack_dual(value).tangent
        return [value.detach(), None if tangent is None else tangent.detach()]
    if isinstance(value, (tuple, list)):
        return [unpacked(t, each) for each in value]
    return value


def alike(mine, theirs) -> None:
    if isinstance(theirs, Exception):
        assert isinstance(mine, type(theirs)) or type(mine).__name__ == type(theirs).__name__, repr(mine)
        assert str(mine) == str(theirs) or str(mine).split(": ", 1)[-1] == str(theirs)
    elif isinstance(theirs, torch.Tensor):
        close(mine, theirs, atol=1e-5)
    elif isinstance(theirs, list):
        assert len(mine) == len(theirs)
        for one, other in zip(mine, theirs):
            alike(one, other)
    else:
        assert mine == theirs


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", CALLS.strip().splitlines())
def test_calls(call: str) -> None:
    def run(t):
        t.manual_seed(0)
        names = values(t)
        with names["F"].dual_level():
            names["d"] = names["F"].make_dual(names["x"], names["v"].clone())
            names["w"] = names["F"].make_dual(names["x"].clone().requires_grad_(), names["v"].clone())
            return unpacked(t, eval(call, names))

    mine, theirs = both(run)
    alike(mine, theirs)


def test_without_a_level() -> None:
    def run(t):
        forward, x = t.autograd.forward_ad, t.ones(2)
        assert forward.unpack_dual(x).primal is x and forward.unpack_dual(x).tangent is None
        return forward.make_dual(x, x)

    alike(*both(run))
    alike(*both(lambda t: t.autograd.forward_ad.exit_dual_level()))
    for t in LIBS:
        assert t.autograd.forward_ad._current_level == -1


@pytest.mark.parametrize("t", LIBS)
def test_the_end_of_a_level_takes_all_tangents(t) -> None:
    forward = t.autograd.forward_ad
    with forward.dual_level():
        x = forward.make_dual(t.ones(2), t.ones(2))
        base = t.zeros(2, 2)
        view = base[0]
        base.add_(x)
        y = view * x
        assert forward.unpack_dual(y).tangent.tolist() == [2.0, 2.0]
    with forward.dual_level():
        for tensor in (x, y, base, view):
            assert forward.unpack_dual(tensor).tangent is None
        assert forward.unpack_dual(view * 2).tangent is None


@pytest.mark.parametrize("t", LIBS)
def test_a_dual_is_a_view_and_its_tangent_the_tensor_given(t) -> None:
    forward, x, v = t.autograd.forward_ad, t.ones(3), t.ones(3)
    with forward.dual_level():
        d = forward.make_dual(x, v)
        primal, tangent = forward.unpack_dual(d)
        assert tangent is v and d._base is x and primal._base is x and primal is not d
        d.mul_(2)
        assert v.tolist() == [2.0] * 3 and x.tolist() == [2.0] * 3 and forward.unpack_dual(x).tangent is None
        primal.mul_(2)
        assert v.tolist() == [2.0] * 3 and d.tolist() == [4.0] * 3


@pytest.mark.parametrize("t", LIBS)
@pytest.mark.parametrize("recorded", [False, True])
def test_views_and_their_base_agree(t, recorded: bool) -> None:
    forward = t.autograd.forward_ad
    with forward.dual_level():
        d = forward.make_dual(t.tensor([3.0, 4.0]), t.tensor([1.0, 2.0]))
        base = t.ones(2, 2, requires_grad=recorded) * 1
        first, second, column = base[0], base[1], base[:, 1]
        first.mul_(d)
        assert forward.unpack_dual(base).tangent.tolist() == [[1.0, 2.0], [0.0, 0.0]]
        assert forward.unpack_dual(second).tangent.tolist() == [0.0, 0.0]
        assert forward.unpack_dual(column).tangent.tolist() == [2.0, 0.0]
        assert forward.unpack_dual(column * 3).tangent.tolist() == [6.0, 0.0]
        base.mul_(2)
        assert forward.unpack_dual(first).tangent.tolist() == [2.0, 4.0]
        base[1] = d
        assert forward.unpack_dual(column).tangent.tolist() == [4.0, 2.0]
        parts = t.zeros(3, dtype=t.complex64)
        real = t.view_as_real(parts)
        parts[1] = d[0]
        assert forward.unpack_dual(real[1]).tangent.tolist() == [1.0, 0.0]


@pytest.mark.parametrize("t", LIBS)
def test_a_copy_has_a_tangent_of_its_own(t) -> None:
    forward = t.autograd.forward_ad
    with forward.dual_level():
        d = forward.make_dual(t.ones(2), t.ones(2))
        for copy in (d.clone(), d + 0, t.zeros(2).copy_(d), t.cat([d]), d.reshape(1, 2).clone()):
            copy.mul_(5)
            assert forward.unpack_dual(d).tangent.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("t", LIBS)
def test_nothing_is_recorded_and_tangents_are_there(t) -> None:
    forward = t.autograd.forward_ad
    with forward.dual_level(), t.no_grad():
        w = forward.make_dual(t.tensor([2.0], requires_grad=True), t.ones(1))
        for y, slope in ((w**3, 12.0), (t.nn.functional.softplus(w), 0.8808), (w.cumprod(0), 1.0)):
            tangent = forward.unpack_dual(y).tangent
            assert not tangent.requires_grad and abs(tangent.item() - slope) < 1e-4


@pytest.mark.parametrize("t", LIBS)
def test_switched_off(t) -> None:
    forward = t.autograd.forward_ad
    with forward.dual_level():
        d = forward.make_dual(t.ones(2), t.ones(2))
        with forward._set_fwd_grad_enabled(False):
            assert not forward._is_fwd_grad_enabled()
            assert forward.unpack_dual(d).tangent is None
            y = d * 2
        assert forward._is_fwd_grad_enabled()
        assert forward.unpack_dual(y).tangent is None and forward.unpack_dual(d).tangent is not None


@pytest.mark.parametrize("t", LIBS)
def test_hessian_times_vector_both_ways(t) -> None:
    """Forward over reverse, with results that the backward reads, and reverse over forward."""
    forward = t.autograd.forward_ad

    def f(x):
        y = (x.exp() * x.sigmoid()).cumsum(0).tanh()
        z = y * y
        return (z.sigmoid() * x).sum() + z[0] * z[1]

    x, v = t.tensor([0.3, -0.2, 0.1], dtype=t.float64), t.tensor([1.0, -2.0, 0.5], dtype=t.float64)
    wanted = t.autograd.functional.hvp(f, x, v)[1]
    with forward.dual_level():
        dual = forward.make_dual(x.clone().requires_grad_(), v)
        (gradient,) = t.autograd.grad(f(dual), dual, create_graph=True)
        assert t.allclose(forward.unpack_dual(gradient).tangent, wanted)
        leaf = x.clone().requires_grad_()
        tangent = forward.unpack_dual(f(forward.make_dual(leaf, v))).tangent
        assert t.allclose(t.autograd.grad(tangent, leaf)[0], wanted)


@pytest.mark.parametrize("t", LIBS)
def test_another_thread_sees_the_level(t) -> None:
    forward, found = t.autograd.forward_ad, []
    with forward.dual_level():
        d = forward.make_dual(t.ones(2), t.ones(2))
        thread = threading.Thread(target=lambda: found.append(forward.unpack_dual(d * 3).tangent.tolist()))
        thread.start()
        thread.join()
    assert found == [[3.0, 3.0]]


@pytest.mark.parametrize("t", LIBS)
def test_a_decorated_function_has_a_level(t) -> None:
    forward = t.autograd.forward_ad

    @forward.dual_level()
    def jvp(x):
        return forward.unpack_dual(forward.make_dual(x, x).sin()).tangent

    assert jvp(t.zeros(2)).tolist() == [0.0, 0.0] and jvp(t.zeros(1)).tolist() == [0.0]


def function_of(t, **methods):
    names = {"forward": staticmethod(lambda ctx, x, k: (ctx.save_for_forward(x), x * k)[1])}
    names |= {name: staticmethod(method) for name, method in methods.items()}
    return type("Scaled", (t.autograd.Function,), names)


FUNCTIONS = {
    "none": {},
    "right": {"jvp": lambda ctx, dx, dk: dx * ctx.saved_tensors[0]},
    "two": {"jvp": lambda ctx, dx, dk: (dx, dx)},
    "given": {"jvp": lambda ctx, dx, dk: dx},
    "size": {"jvp": lambda ctx, dx, dk: dx.sum()},
    "numbers": {"jvp": lambda ctx, dx, dk: dx if dk is None else dx * 0},
    "second": {"jvp": lambda ctx, dx, dk: dx * ctx.saved_tensors[0].sin()},
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    def run(t):
        forward = t.autograd.forward_ad
        with forward.dual_level():
            d = forward.make_dual(t.tensor([2.0, 3.0]), t.tensor([1.0, -1.0]))
            return unpacked(t, function_of(t, **FUNCTIONS[name]).apply(d, 4))

    alike(*both(run))


def test_a_function_of_two_tensors_gets_zeros_for_the_one_without() -> None:
    def run(t, materialize):
        class Product(t.autograd.Function):
            @staticmethod
            def forward(x, y):
                return x * y, x.long()

            @staticmethod
            def setup_context(ctx, inputs, output):
                ctx.set_materialize_grads(materialize)
                ctx.save_for_forward(*inputs)
                ctx.mark_non_differentiable(output[1])

            @staticmethod
            def jvp(ctx, dx, dy):
                x, y = ctx.saved_tensors
                return dx * y + (x * dy if dy is not None else 100), None

        forward = t.autograd.forward_ad
        with forward.dual_level():
            d = forward.make_dual(t.tensor([2.0, 3.0]), t.tensor([1.0, -1.0]))
            return unpacked(t, Product.apply(d, t.tensor([5.0, 7.0])))

    for materialize in (True, False):
        alike(*both(lambda t: run(t, materialize)))  # noqa: B023


def test_compiled_functions_stay_right() -> None:
    def f(x, y):
        return (x * y).sin().sum() + x.mean()

    for mode in ("default", "reduce-overhead"):
        compiled = nt.compile(f, mode=mode)
        x, y, v = nt.tensor([1.0, 2.0]), nt.tensor([0.5, 3.0]), nt.tensor([1.0, -1.0])
        plain = compiled(x, y)
        forward = nt.autograd.forward_ad
        for _ in range(2):
            with forward.dual_level():
                d = forward.make_dual(x, v)
                for _ in range(2):
                    mine, wanted = forward.unpack_dual(compiled(d, y)), forward.unpack_dual(f(d, y))
                    assert nt.equal(mine.primal, wanted.primal) and nt.allclose(mine.tangent, wanted.tangent)
            assert nt.allclose(compiled(x, y), plain)


def test_duals_made_inside_of_compiled_functions() -> None:
    forward = nt.autograd.forward_ad

    def f(x, v):
        with forward.dual_level():
            d = forward.make_dual(x * 2, v)
            return forward.unpack_dual(d.sin() * d).tangent

    x, v = nt.tensor([1.0, 2.0]), nt.tensor([1.0, -1.0])
    assert nt.allclose(nt.compile(f)(x, v), f(x, v))


def test_a_level_that_is_left_by_an_error_is_closed() -> None:
    def run(t):
        forward = t.autograd.forward_ad
        with pytest.raises(RuntimeError), forward.dual_level():
            forward.make_dual(t.ones(2), t.ones(2)) @ t.ones(3)
        return forward._current_level

    assert both(run) == [-1, -1]


# ---- gradcheck -------------------------------------------------------------------------------------------------------
def wrong_jvp(t):
    class Double(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

        @staticmethod
        def jvp(ctx, dx):
            return dx * 3

    return Double.apply


@pytest.mark.parametrize("fast", [False, True])
def test_gradcheck(fast: bool) -> None:
    """A right function passes by forward mode, over the backward too; a wrong jvp is found, and only by that check."""

    def run(t):
        x = t.tensor([0.3, -0.2], dtype=t.float64, requires_grad=True)
        z = t.tensor([[0.3 + 1j, -0.2j], [1, 0.5]], dtype=t.complex128, requires_grad=True)
        f, check, options = wrong_jvp(t), t.autograd.gradcheck, {"fast_mode": fast}
        batched = {"check_forward_ad": True, "check_batched_forward_grad": True}
        assert check(lambda x: (x.exp(), x[0] * x), (x,), **batched, **options)
        assert check(lambda z: z.abs() * z @ z, (z,), check_forward_ad=True, **options)
        assert check(f, (x,), **options)
        assert not check(f, (x,), check_forward_ad=True, raise_exception=False, **options)
        assert t.autograd.gradgradcheck(lambda x: x.sin() * x, (x,), check_fwd_over_rev=True, **options)
        return check(f, (x,), check_forward_ad=True, check_backward_ad=False, **options)

    mine, theirs = both(run)
    assert type(mine).__name__ == type(theirs).__name__ == "GradcheckError", (mine, theirs)
    start = "Jacobian computed with forward mode mismatch for output 0 with respect to input 0,"
    assert start in str(mine) and start in str(theirs)
