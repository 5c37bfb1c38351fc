"""torch.func and vmap: values, whether they require grad, errors and their texts are PyTorch's."""

import narthex as nt
import pytest
import torch
from both import close, over

CALLS = """
f.grad(lambda x: x)(x)
f.grad(lambda x: (x.sum(), x))(x)
f.grad(lambda x: x.sum(), argnums=1)(x)
f.grad(lambda x: x.sum())(3)
f.grad(lambda x: 3.0)(x)
f.grad(lambda x: x.sum(), has_aux=True)(x)
f.grad(lambda x: (x.sum(), x, 1), has_aux=True)(x)
f.grad(lambda x: x.sum(), argnums=(0, 0))(x)
f.grad(lambda x: x.sum(), argnums=())(x)
f.grad(lambda x: x.sum(), argnums='a')(x)
f.grad(lambda x: (x.sum(), {'a': x * 2}), has_aux=True)(x)
f.grad(lambda x: (x.sum(), 3), has_aux=True)(x)
f.grad(lambda d: d['a'].exp().sum())({'a': x})
f.grad(lambda x: x.sum())(t.ones(3, dtype=t.long))
f.grad(lambda x, y: (x * y ** 2).sum(), argnums=(0, 1))(x, x)
f.grad(lambda x, y: x.sum(), argnums=-1)(x, x)
f.grad(lambda x: t.tensor(1.))(x)
f.grad(lambda x: x[0:1])(x)
f.grad_and_value(lambda x: x.sin().sum())(x)
f.grad_and_value(lambda x: (x.sin().sum(), x), has_aux=True)(x)
f.grad(lambda x: (x * w).sum())(x)
f.grad(lambda x: (x ** 2 * w).sum())(x)
f.grad(lambda x: (x ** 2).sum())(w)
f.grad(f.grad(lambda x: x ** 3))(t.tensor(2.))
f.grad(lambda x: x * f.grad(lambda y: x * y)(t.tensor(1.)))(t.tensor(3.))
f.grad(lambda x: f.grad(lambda y: (x * y) ** 2)(x))(t.tensor(3.))
f.grad(lambda x: f.jvp(lambda y: y ** 2 * x, (x,), (x,))[1])(t.tensor(3.))
f.vjp(lambda x: x * 2, x)[1](t.ones(2))
f.vjp(lambda x: x * 2, x)[1](t.ones(3))
f.vjp(lambda x: (x * 2, x), x)[1](t.ones(3))
f.vjp(lambda x: 3, x)
f.vjp(lambda x, y: x * y, x, x)[1](x)
f.vjp(lambda x: (x * 2, x.sum()), x, has_aux=True)[2]
f.vjp(lambda x: {'a': x * 2}, x)[1]({'a': x})
f.vjp(lambda x: [x * 2], x)[1]([x])
f.vjp(lambda x: x * 2, 3)
f.vjp(lambda x: (x * 2, 3), x)
f.vjp(lambda d: d['a'] * 2, {'a': x})[1](x)
f.vjp(lambda x: t.ones(2), x)[1](t.ones(2))
f.jvp(lambda x: x * 2, (x,), (x,))
f.jvp(lambda x: x * 2, x, x)
f.jvp(lambda x: x * 2, (x,), (t.ones(2),))
f.jvp(lambda x, y: x * y, (x, x), (x,))
f.jvp(lambda x, y: x.exp() * y, (x, x), (x, t.ones(3)))
f.jvp(lambda x: (x * 2, {'a': x.sin()}), (x,), (x,))
f.jvp(lambda x: (x * 2, x), (x,), (x,), has_aux=True)
f.jvp(lambda x: t.ones(2), (x,), (x,))
f.jvp(lambda x: t.ones(2), (x,), (x,), strict=True)
f.jvp(lambda x: 3, (x,), (x,))
f.jvp(lambda x: x, (), ())
f.jvp(lambda x: x, (3,), (3,))
f.linearize(lambda x: x.sin(), x)[1](x)
f.linearize(lambda x, y: x.sin() * y, x, x)[1](x, 2 * x)
f.jacrev(lambda x: x * x)(x)
f.jacrev(lambda x: (x * x, x.sum()))(x)
f.jacrev(lambda x, y: x * y, argnums=(0, 1))(x, x)
f.jacrev(lambda x: (x * x, x), has_aux=True)(x)
f.jacrev(lambda x: x * x, chunk_size=0)(x)
f.jacrev(lambda x: x * x, chunk_size=2)(x)
f.jacrev(lambda x: x * x, argnums=2)(x)
f.jacrev(lambda x: x * x, argnums=())(x)
f.jacrev(lambda d: d['a'] * d['b'])({'a': x, 'b': x})
f.jacrev(lambda x: {'z': x.outer(x)})(x)
f.jacrev(lambda x: 3)(x)
f.jacfwd(lambda x: x * x)(x)
f.jacfwd(lambda x: (x * x, x.sum()))(x)
f.jacfwd(lambda x, y: x.outer(y), argnums=(0, 1))(x, x)
f.jacfwd(lambda x: 3)(x)
f.hessian(lambda x: x.pow(3).sum())(x)
f.hessian(lambda x, y: (x * y ** 2).sum(), argnums=(0, 1))(x, x)
f.jacrev(f.jacfwd(lambda x: x.exp()))(x)
f.jacfwd(f.jacfwd(lambda x: x.exp()))(x)
f.functional_call(m, {'weight': t.ones(2, 3)}, x)
f.functional_call(m, [{'weight': t.ones(2, 3)}, {'bias': t.ones(2)}], (x,))
f.functional_call(m, [{'weight': t.ones(2, 3)}, {'weight': t.ones(2, 3)}], (x,))
f.functional_call(m, 3, (x,))
f.functional_call(m, {'weight': t.ones(2, 3)}, x, strict=True)
f.stack_module_state([])
f.stack_module_state([m, t.nn.ReLU()])
f.stack_module_state([m, t.nn.Linear(3, 2).eval()])
f.stack_module_state([m, m])
vmap(two)(a, b)
vmap(two, in_dims=(0,))(a, a)
vmap(two, in_dims=(None, None))(a, a)
vmap(one)(3)
vmap(one, in_dims=2)(a)
vmap(one, in_dims=-3)(a)
vmap(one)(t.tensor(1.))
vmap(one)()
vmap(one, in_dims=[0])(a)
vmap(one, in_dims='a')(a)
vmap(one, in_dims=(0.5,))(a)
vmap(one, in_dims=1)(a)
vmap(one, in_dims=-1)(a)
vmap(one, in_dims=1, out_dims=1)(a)
vmap(two, in_dims=(0, None))(a, a[0])
vmap(lambda x: 3)(a)
vmap(lambda x: (x, 3))(a)
vmap(lambda x: (x, 3), out_dims=(0, None))(a)
vmap(one, out_dims=3)(a)
vmap(one, out_dims=-1)(a)
vmap(one, out_dims='a')(a)
vmap(one, out_dims=(0, 0))(a)
vmap(one, out_dims=None)(a)
vmap(lambda x: (x, x), out_dims=(0, 1))(a)
vmap(lambda x: (x, x), out_dims=(0, 0, 0))(a)
vmap(lambda x: x * t.randn(2))(a)
vmap(lambda x: t.randn(2), randomness='foo')(a)
vmap(lambda x: t.nn.functional.dropout(x))(a)
vmap(one, chunk_size=0)(a)
vmap(lambda x: x.sin(), chunk_size=2)(a)
vmap(lambda x, y: x + y.copy_(x), in_dims=(0, None))(a, t.ones(2))
vmap(lambda d: d['a'], in_dims=({'a': 0},))({'a': a})
vmap(lambda d: d['a'], in_dims=({'b': 0},))({'a': a})
vmap(lambda x: {'a': x})(a)
vmap(lambda x: t.ones(2))(a)
vmap(lambda x, k=None: x + k)(a, k=t.ones(3, 2))
vmap(lambda x, i: x[i], in_dims=(0, None))(a, 1)
vmap(vmap(t.dot))(a.expand(2, 3, 2), a.expand(2, 3, 2))
vmap(vmap(two, in_dims=(None, 0)), in_dims=(0, None))(a, b)
vmap(t.mv, in_dims=(None, 0))(a, b)
vmap(f.grad(lambda x: x.sin().prod()))(a)
vmap(f.grad(lambda w, x: (w * x).tanh().sum()), in_dims=(None, 0))(a[0], a)
f.grad(lambda x: vmap(lambda row: row.exp().prod())(x).sum())(a)
f.grad(lambda x: vmap(f.grad(lambda row: row.exp().prod()))(x).sum())(a)
f.jacrev(vmap(lambda row: row.exp().prod()))(a)
vmap(f.hessian(lambda row: row.exp().prod()))(a)
vmap(lambda x, v: f.jvp(t.sin, (x,), (v,))[1])(a, a)
vmap(lambda x: x * wa)(a)
vmap(lambda x: t.rand(2), randomness='same')(a)
vmap(lambda x: t.rand(2), randomness='different')(a)
vmap(lambda x: t.nn.functional.dropout(x), randomness='same')(a)
vmap(lambda x: t.nn.functional.dropout(x), randomness='different')(a)
vmap(lambda x: t.randperm(4), randomness='different')(a)
t.autograd.grad((wa ** 2), wa, t.eye(2), is_grads_batched=True)
t.autograd.grad((wa ** 2, wa * 3), wa, (t.eye(2), t.eye(2)), is_grads_batched=True, create_graph=True)
""".strip().split("\n")


def names(t):
    def one(x):
        return x

    def two(x, y):
        return x + y

    m = t.nn.Linear(3, 2)
    with t.no_grad():
        m.weight.copy_(t.arange(6.0).view(2, 3) / 7), m.bias.fill_(0.5)
    t.manual_seed(0)
    return {
        "f": t.func, "t": t, "vmap": t.vmap, "one": one, "two": two, "m": m,
        "x": t.tensor([1.5, -0.25, 2.0]), "w": t.tensor([0.5, 1.0, -1.0], requires_grad=True),
        "a": t.tensor([[0.5, 1.0], [-1.5, 0.25], [2.0, -0.75]]), "b": t.arange(8.0).view(4, 2),
        "wa": t.tensor([0.5, 1.0], requires_grad=True),
    }  # fmt: skip


def numbers(value):
    if hasattr(value, "detach"):
        elements = [round(v, 4) + 0.0 for v in value.detach().reshape(-1).tolist()]
        return [tuple(value.shape), value.requires_grad, elements]
    if isinstance(value, dict):
        return {key: numbers(each) for key, each in value.items()}
    return [numbers(each) for each in value] if isinstance(value, tuple | list) else value


def told(text, t):
    try:
        return numbers(eval(text, names(t)))
    except Exception as error:
        text = " ".join(str(error).split())  # PyTorch breaks lines in structures
        return f"{type(error).__name__}: {text.replace('narthex', 'torch')}"


@pytest.mark.parametrize("text", CALLS)
def test_func(text):
    assert told(text, nt) == told(text, torch)


def network(t):
    n = t.nn
    head = n.Sequential(n.Conv2d(1, 3, 3), n.ReLU(), n.MaxPool2d(2), n.Flatten())
    return n.Sequential(head, n.Linear(27, 4), n.Tanh(), n.Linear(4, 5))


def same_state(mine, theirs):
    with nt.no_grad():
        for one, other in zip(mine.parameters(), theirs.parameters()):
            one.copy_(over(other))


def test_gradients_of_each_sample():
    mine, theirs = network(nt), network(torch)
    same_state(mine, theirs)
    x, y = torch.randn(6, 1, 8, 8), torch.randint(0, 5, (6,))
    results = []
    for t, model, data, target in ((nt, mine, over(x), over(y)), (torch, theirs, x, y)):
        parameters = {name: each.detach() for name, each in model.named_parameters()}

        def loss(parameters, sample, label, t=t, model=model):
            out = t.func.functional_call(model, parameters, (sample.unsqueeze(0),))
            return t.nn.functional.cross_entropy(out, label.unsqueeze(0))

        results.append(t.vmap(t.func.grad(loss), in_dims=(None, 0, 0))(parameters, data, target))
    assert list(results[0]) == list(results[1])
    for name in results[1]:
        close(results[0][name], results[1][name], atol=1e-5)


def test_an_ensemble():
    models, others = [network(nt) for _ in range(3)], [network(torch) for _ in range(3)]
    for one, other in zip(models, others):
        same_state(one, other)
    x, results = torch.randn(4, 1, 8, 8), []
    for t, made, data in ((nt, models, over(x)), (torch, others, x)):
        parameters, buffers = t.func.stack_module_state(made)

        def call(parameters, buffers, x, t=t, model=made[0]):
            return t.func.functional_call(model, (parameters, buffers), (x,))

        out = t.vmap(call, in_dims=(0, 0, None))(parameters, buffers, data)
        out.square().sum().backward()
        results.append((out, {name: each.grad for name, each in parameters.items()}))
    close(results[0][0], results[1][0], atol=1e-5)
    for name, gradient in results[1][1].items():
        close(results[0][1][name], gradient, rtol=1e-4, atol=1e-4)


def test_batch_norm_of_each_sample():
    results, x = [], torch.randn(3, 4, 2, 5)
    for t, data in ((nt, over(x)), (torch, x)):
        n = t.nn
        model = n.Sequential(n.BatchNorm1d(2), n.InstanceNorm1d(2, track_running_stats=True))
        assert t.func.replace_all_batch_norm_modules_(model) is model
        parameters = {name: each.detach() for name, each in model.named_parameters()}

        def loss(parameters, x, t=t, model=model[0]):
            return t.func.functional_call(model, parameters, (x,)).exp().sum()

        own = {name.removeprefix("0."): each for name, each in parameters.items()}
        results.append((sorted(name for name, _ in model.named_buffers()),
                        t.vmap(t.func.grad(loss), in_dims=(None, 0))(own, data)))  # fmt: skip
    assert results[0][0] == results[1][0]
    for name, gradient in results[1][1].items():
        close(results[0][1][name], gradient, rtol=1e-4, atol=1e-4)


def test_what_is_shared_is_refused_in_batch_norm():
    model = nt.nn.BatchNorm1d(2)
    buffers = dict(model.named_buffers())
    call = nt.vmap(lambda x, buffers: nt.func.functional_call(model, buffers, (x,)), in_dims=(0, None))
    with pytest.raises(RuntimeError, match="not possible because"):
        call(nt.randn(3, 4, 2, 5), buffers)
    with pytest.raises(RuntimeError, match="not possible because"):
        nt.vmap(model)(nt.randn(3, 4, 2, 5))


def test_no_slices():
    assert nt.vmap(nt.sin)(nt.ones(0, 2)).shape == (0, 2)
    assert nt.vmap(nt.func.grad(lambda x: x.sin().sum()))(nt.ones(0, 2)).shape == (0, 2)


def test_what_is_shared_is_not_written():
    with pytest.raises(RuntimeError, match="not possible because there exists a Tensor"):
        nt.vmap(lambda x, y: x + y.add_(x), in_dims=(0, None))(nt.ones(2, 2), nt.ones(2))
    with pytest.raises(RuntimeError, match="not possible because there exists a Tensor"):
        nt.vmap(lambda x, y=None: y.add_(x))(nt.ones(2, 2), y=nt.ones(2))


def test_the_function_is_called_once():
    calls = []
    nt.vmap(lambda x: (calls.append(x.shape), x * 2)[1])(nt.ones(5, 2, 3))
    assert calls == [(2, 3)]
    nt.vmap(lambda x: (calls.append(x.shape), x * 2)[1], chunk_size=2)(nt.ones(5, 2, 3))
    assert calls == 4 * [(2, 3)]
    calls.clear()
    row = lambda g: (calls.append(g.shape), g)[1]  # noqa: E731
    x = nt.ones(3, requires_grad=True)
    y = x.sin()
    y.register_hook(row)
    assert nt.func.jacrev(nt.sin)(nt.ones(3)).shape == (3, 3)
    assert nt.autograd.grad(y, x, nt.eye(3), is_grads_batched=True)[0].shape == (3, 3)
    assert calls == [(3,)]


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda t, x: x * x.sum().item(), "calling .item"),
        (lambda t, x: x if x.sum() > 0 else -x, "data-dependent control flow"),
        (lambda t, x: x[x > 0], "dynamic shape"),
        (lambda t, x: x.nonzero(), "dynamic shape"),
        (lambda t, x: t.tensor(x.numpy()), "data pointer"),
        (lambda t, x: t.randn(2) + x, "randomness error mode"),
        (lambda t, x: x.data, "accessing `data`"),
    ],
)
def test_what_elements_decide_is_refused(function, said):
    for t in (nt, torch):
        with pytest.raises(RuntimeError, match=said):
            t.vmap(lambda x, t=t: function(t, x))(t.ones(3, 2))


def test_slices_as_tensors():
    """What a slice says of itself, and what is written through views of it."""
    seen = []

    def f(x):
        seen.append((tuple(x.shape), x.stride(), x.is_contiguous(), x.requires_grad, x.is_leaf))
        y = x * 1
        y[0] = 7
        y.t_().mul_(2)
        return y

    x = nt.arange(12.0).reshape(2, 2, 3)
    wanted = nt.stack([f(part) for part in x])
    assert nt.equal(nt.vmap(f)(x), wanted)
    assert seen[0] == seen[-1] == ((2, 3), (3, 1), True, False, True)
    text = []
    nt.vmap(lambda x: (text.append(repr(x)), x)[1])(nt.ones(2))
    assert text == ["BatchedTensor(lvl=1, bdim=0, value=\n    tensor([1., 1.])\n)"]


def test_gradients_of_what_is_not_mapped():
    """backward adds up over slices, as in a loop; a gradient of one's own is asked of func.grad."""
    w = nt.ones(3, requires_grad=True)
    x = nt.arange(6.0).reshape(2, 3)
    nt.vmap(lambda x: (w * x).sum())(x).sum().backward()
    assert w.grad.tolist() == [3.0, 5.0, 7.0]
    with pytest.raises(RuntimeError, match="torch.func.grad"):
        nt.vmap(lambda x: nt.autograd.grad((w * x).sum(), w)[0])(x)
    gradients = nt.vmap(nt.func.grad(lambda w, x: (w * x).sum()), in_dims=(None, 0))(w.detach(), x)
    assert nt.equal(gradients, x)


def test_forward_mode_and_functions_inside():
    from narthex.autograd import forward_ad as fwAD  # noqa: N812

    class Cube(nt.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return x**3 * w

        @staticmethod
        def backward(ctx, g):
            x, w = ctx.saved_tensors
            return 3 * x**2 * w * g, x**3 * g

    x = nt.arange(6.0, dtype=nt.float64).reshape(2, 3).requires_grad_()
    w = nt.full((3,), 2.0, dtype=nt.float64).requires_grad_()
    y = nt.vmap(lambda x: Cube.apply(x, w))(x)
    nt.testing.assert_close(nt.autograd.grad(y.sum(), (x, w)), nt.autograd.grad((x**3 * w).sum(), (x, w)))
    rows = nt.func.jacrev(lambda x: Cube.apply(x, w).sum(0))(x)
    assert nt.equal(rows, nt.func.jacrev(lambda x: (x**3 * w).sum(0))(x))
    class Scaled(Cube):
        @staticmethod
        def vmap(info, in_dims, x, w):
            assert info.batch_size == 2 and info.randomness == "error" and in_dims == (0, None)
            return (x * w * 10).movedim(0, -1), -1

    assert nt.equal(nt.vmap(lambda x: Scaled.apply(x, w))(x), x * w * 10)

    def along(x, t):
        return fwAD.unpack_dual(fwAD.make_dual(x, t).sin() * x).tangent

    with fwAD.dual_level():
        direction = nt.ones(3, dtype=nt.float64)
        given = nt.vmap(along, in_dims=(0, None))(x.detach(), direction)
    nt.testing.assert_close(given, x.detach().cos() * x.detach())
    tangent = nt.vmap(lambda x: nt.func.jvp(lambda x: x.sin(), (x,), (x,))[1])(x.detach())
    nt.testing.assert_close(tangent, x.detach().cos() * x.detach())


def test_levels_by_pytorchs_names():
    for t in (nt, torch):
        f = t._C._functorch
        x = t.arange(6.0).reshape(2, 3)
        level = f._vmap_increment_nesting(3, "error")
        try:
            a = f._add_batch_dim(x, 1, level)
            assert f.is_batchedtensor(a) and not f.is_batchedtensor(x) and f.maybe_get_level(a) == level == 1
            assert a.shape == (2,) and f.get_unwrapped(a).numel() == 6
            y = f._remove_batch_dim(a * 2, level, 3, 0)
        finally:
            assert f._vmap_decrement_nesting() == 1
        assert y.tolist() == (x.T * 2).tolist() and f.maybe_get_bdim(x) == -1


def test_a_map_of_gradients_of_a_layer_norm_is_differentiated_as_the_loop():
    """Beside differences, not PyTorch, whose mapped form has another number here."""
    nt.manual_seed(0)
    x, w = nt.randn(3, 8, dtype=nt.float64), nt.randn(8, dtype=nt.float64, requires_grad=True)

    def stepped(w, x):
        step = nt.func.grad(lambda w: nt.nn.functional.layer_norm(w * x, (8,)).tanh().pow(2).sum())
        return (w - 0.1 * step(w)).mul(x).sum()

    mapped = lambda w: nt.vmap(stepped, in_dims=(None, 0))(w, x).sum()  # noqa: E731
    (found,) = nt.autograd.grad(mapped(w), w)
    (looped,) = nt.autograd.grad(sum(stepped(w, row) for row in x), w)
    step = nt.eye(8, dtype=nt.float64) * 1e-6
    with nt.no_grad():
        slopes = nt.stack([(mapped(w + d) - mapped(w - d)) / 2e-6 for d in step])
    assert nt.allclose(found, looped) and nt.allclose(found, slopes, atol=1e-6)
