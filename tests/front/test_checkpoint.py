"""torch.utils.checkpoint and saved_tensors_hooks: gradients, texts, memory and random numbers as PyTorch's."""

import gc
import warnings
import weakref

import narthex as nt
import narthex.utils.checkpoint as nt_checkpoint
import pytest
import torch
import torch.utils.checkpoint as torch_checkpoint

from tests.front.both import close, same

PAIRS = ((nt, nt_checkpoint), (torch, torch_checkpoint))


def leaves(t):
    x, w = t.arange(12.0).view(3, 4) / 7, t.arange(16.0).view(4, 4) / 9 - 0.5
    return x.requires_grad_(), w.requires_grad_()


def block(t, x, w, scale=1.0):
    y = t.tanh(x @ w) * scale
    return (y.exp() * x).softmax(-1)


def with_dropout(t, x, w, scale=1.0):
    return t.nn.functional.dropout((x @ w).sigmoid(), 0.5) * x.exp() * scale


def with_writes(t, x, w, scale=1.0):
    y = x @ w
    y[0].mul_(2)
    y.relu_()
    return y * y * scale


def with_cat(t, x, w, scale=1.0):
    y = t.cat([x @ w, x], 1)
    a, b = y.exp().chunk(2, 1)
    return a.sigmoid() * b.sin() * scale


FUNCTIONS = [block, with_dropout, with_writes, with_cat]


@pytest.mark.parametrize("preserve", [True, False])
@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_gradients(function, reentrant, preserve):
    found = []
    for t, c in PAIRS:
        t.manual_seed(3)
        x, w = leaves(t)
        kept = {"use_reentrant": reentrant, "preserve_rng_state": preserve}
        y = c.checkpoint(lambda x, w, t=t: function(t, x, w), x * 2, w, **kept)
        z = c.checkpoint(lambda y, t=t, w=w: function(t, y, w), y, **kept)
        later = t.randn(2)
        (z * z).sum().backward()
        found.append([y, z, x.grad, w.grad, later, t.randn(2)])
    for mine, theirs in zip(*found):
        close(mine, theirs)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_equals_plain(function):
    grads = []
    for checkpointed in (False, True):
        nt.manual_seed(3)
        x, w = leaves(nt)

        def run(x, w):
            return function(nt, x, w)

        y = nt_checkpoint.checkpoint(run, x * 2, w, use_reentrant=False) if checkpointed else run(x * 2, w)
        g = nt.autograd.grad((y * y).sum(), [x, w], create_graph=function is block)
        again = nt.autograd.grad(sum((a * a).sum() for a in g), [x, w]) if function is block else ()
        grads.append([y, *g, *again])
    for plain, mine in zip(*grads, strict=True):
        assert plain.tolist() == mine.tolist()


def test_saved_tensors_are_dropped():
    seen = []
    for t, c in PAIRS:
        x, w = leaves(t)
        alive = []

        def run(x, w, alive=alive):
            y = (x @ w).exp()
            alive.append(weakref.ref(y))
            return y * y

        y = c.checkpoint(run, x, w, use_reentrant=False)
        gc.collect()
        counts = [sum(a() is not None for a in alive)]
        y.sum().backward(retain_graph=True)
        first = w.grad.tolist()
        y.sum().backward()
        del y
        gc.collect()
        counts += [
            len(alive),
            sum(a() is not None for a in alive),
            w.grad.tolist() == [[2 * v for v in r] for r in first],
        ]
        seen.append(counts)
    assert seen[0] == seen[1] == [0, 3, 0, True]


def test_nested():
    found = []
    for t, c in PAIRS:
        n_calls = [0, 0, 0]
        x, w = leaves(t)

        def inner(x, w, t=t, n_calls=n_calls):
            n_calls[0] += 1
            return block(t, x, w)

        def middle(x, w, c=c, n_calls=n_calls, inner=inner):
            n_calls[1] += 1
            return c.checkpoint(inner, x.sin(), w, use_reentrant=False).exp() * x

        def outer(x, w, c=c, n_calls=n_calls, middle=middle):
            n_calls[2] += 1
            return c.checkpoint(middle, x * x, w, use_reentrant=False).cos() * w[0]

        y = c.checkpoint(outer, x, w, use_reentrant=False)
        y.sum().backward()
        found.append(([y, x.grad, w.grad], n_calls))
    assert found[0][1] == found[1][1]
    for mine, theirs in zip(found[0][0], found[1][0], strict=True):
        close(mine, theirs)


def test_inner_values_of_a_nested_one_are_dropped():
    alive = []

    def inner(x):
        y = x.exp()
        alive.append(weakref.ref(y))
        return y * y

    def outer(x):
        z = x.sin()
        alive.append(weakref.ref(z))
        return nt_checkpoint.checkpoint(inner, z, use_reentrant=False).cos()

    x = nt.ones(3, requires_grad=True)
    y = nt_checkpoint.checkpoint(outer, x, use_reentrant=False)
    gc.collect()
    assert [a() for a in alive] == [None, None]
    y.sum().backward()
    z = nt.ones(3, requires_grad=True)
    outer(z).sum().backward()
    assert x.grad.tolist() == z.grad.tolist()


@pytest.mark.parametrize("early_stop", [True, False])
def test_backward_inside(early_stop):
    found = []
    for t, c in PAIRS:
        x = t.arange(3.0).requires_grad_()

        def run(x, t=t):
            y = x.exp() * x
            (g,) = t.autograd.grad(y.sum(), x, retain_graph=True)
            return (g * y).sin() * x

        y = c.checkpoint(run, x, use_reentrant=False, early_stop=early_stop)
        y.sum().backward()
        found.append([y, x.grad])
    for mine, theirs in zip(*found, strict=True):
        close(mine, theirs)


def test_keywords_and_plain_values():
    for t, c in PAIRS:
        x, w = leaves(t)
        y, tag = c.checkpoint(
            lambda x, *, w, scale, t=t: (block(t, x, w, scale), "tag"), x, w=w, scale=0.5, use_reentrant=False
        )
        y.sum().backward()
        assert tag == "tag" and w.grad is not None
    with nt.no_grad():
        assert not nt_checkpoint.checkpoint(
            lambda x: x * 2, x := nt.ones(2, requires_grad=True), use_reentrant=False
        ).requires_grad
    assert x.grad is None


@pytest.mark.parametrize("reentrant", [True, False])
def test_autocast(reentrant):
    found = []
    for t, c in PAIRS:
        x, w = leaves(t)
        dtypes = []

        def run(x, w, dtypes=dtypes):
            y = x @ w
            dtypes.append(str(y.dtype))
            return y.float() * x

        with t.autocast("cpu", t.bfloat16):
            y = c.checkpoint(run, x, w, use_reentrant=reentrant)
        y.sum().backward()
        found.append(([y, x.grad, w.grad], dtypes))
    assert found[0][1] == found[1][1] == ["torch.bfloat16"] * 2
    for mine, theirs in zip(found[0][0], found[1][0], strict=True):
        close(mine, theirs, 2e-2, 2e-2)


def same_failure(run, match=None):
    texts = []
    for t, c in PAIRS:
        with pytest.raises(Exception) as caught:
            run(t, c)
        texts.append((caught.type.__name__, str(caught.value).split("\n")[0].rstrip(".")))
    assert texts[0] == texts[1]


def changing(t, c, other):
    calls = []

    def run(x):
        calls.append(1)
        return x.exp() * x.sin() if len(calls) == 1 else other(x)

    x = t.ones(3, requires_grad=True)
    c.checkpoint(run, x, use_reentrant=False, early_stop=False).sum().backward()


ERRORS = {
    "more": lambda t, c: changing(t, c, lambda x: x.exp() * x.sin() * x.cos()),
    "fewer": lambda t, c: changing(t, c, lambda x: x.exp()),
    "another shape": lambda t, c: changing(t, c, lambda x: x[0:2].exp() * x[0:2].sin()),
    "unknown keyword": lambda t, c: c.checkpoint(lambda x: x, t.ones(1), use_reentrant=True, other=1),
    "inputs": lambda t, c: t.autograd.grad(
        c.checkpoint(lambda x: x * x, x := t.ones(1, requires_grad=True), use_reentrant=True), [x]
    ),
    "nothing to do": lambda t, c: c.checkpoint(
        lambda x: x.detach() * 2, t.ones(1, requires_grad=True), use_reentrant=True
    ).backward(),
    "raises": lambda t, c: c.checkpoint(lambda x: 1 / 0, t.ones(1, requires_grad=True), use_reentrant=False),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    same_failure(ERRORS[name])


def test_warnings():
    for t, c in PAIRS:
        with pytest.warns(
            Warning, match="torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly"
        ):
            c.checkpoint(lambda x: x * 2, t.ones(1, requires_grad=True))
        with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True. Gradients will be None"):
            c.checkpoint(lambda x: x * 2, t.ones(1), use_reentrant=True)


@pytest.mark.parametrize("reentrant", [True, False])
def test_sequential(reentrant):
    found = []
    for t, c in PAIRS:
        layers = [t.tanh, t.exp, t.sin, t.sigmoid, t.cos]
        x = (t.arange(6.0) / 5).requires_grad_()
        y = c.checkpoint_sequential(layers, 2, x, use_reentrant=reentrant)
        y.sum().backward()
        found.append([y, x.grad])
    for mine, theirs in zip(*found, strict=True):
        close(mine, theirs)


@pytest.mark.parametrize("mode", ["max-autotune", "reduce-overhead"])
@pytest.mark.parametrize("reentrant", [True, False])
def test_compiled(mode, reentrant):
    """Inside of a compiled function, and around one."""
    grads = []
    for compiled in (False, True):
        x, w = leaves(nt)

        def part(x, w):
            return block(nt, x, w)

        around = nt.compile(part, mode=mode) if compiled else part

        def f(x, w):
            y = nt_checkpoint.checkpoint(part, x * 2, w, use_reentrant=reentrant)
            return y * 3

        called = nt.compile(f, mode=mode) if compiled else f
        for _ in range(2):
            y = called(x, w) + nt_checkpoint.checkpoint(around, x, w, use_reentrant=reentrant)
            (y * y).sum().backward()
        grads.append([y, x.grad, w.grad])
    for eager, mine in zip(*grads, strict=True):
        assert (eager - mine).abs().max().item() < 1e-5


def test_device_draws_the_same_numbers_again():
    from narthex.compat import torch_npu

    drawn = []

    def run(x):
        mask = nt.nn.functional.dropout(nt.ones(64, device="npu:0"), 0.5)
        drawn.append(mask.tolist())
        return (x * mask).exp() * x

    x = nt.ones(64).to("npu:0").requires_grad_()
    nt.manual_seed(1)
    y = nt_checkpoint.checkpoint(run, x, use_reentrant=False)
    before = torch_npu.npu.get_rng_state()
    y.sum().backward()
    assert drawn[0] == drawn[1] and drawn[0].count(0.0) > 10
    assert torch_npu.npu.get_rng_state().tolist() == before.tolist()
    again = []
    for _ in range(2):
        torch_npu.npu.set_rng_state(before)
        again.append(nt.ones(5, device="npu:0").normal_().tolist())
    assert again[0] == again[1]


# ---- saved_tensors_hooks ---------------------------------------------------------------------------------------------
def test_hooks_see_what_is_saved():
    found = []
    for t, _ in PAIRS:
        log = []
        x, w = leaves(t)

        def hooks(name, t=t, log=log):
            def pack(saved):
                log.append((name, "pack", tuple(saved.shape), t.is_grad_enabled()))
                return saved.detach().numpy().copy()

            def unpack(packed):
                log.append((name, "unpack", packed.shape))
                return t.from_numpy(packed)

            return t.autograd.graph.saved_tensors_hooks(pack, unpack)

        with hooks("outer"):
            y = x @ w
            with hooks("inner"):
                y = y.exp() * x
            z = y.sin()
        with t.no_grad():
            w.add_(100)  # nothing is watched: copies were packed
        a = t.autograd.grad(z.sum(), [x, w], create_graph=True)
        b = t.autograd.grad((a[0] * a[0]).sum() + a[1].sum(), [x, w])
        found.append((sorted(log, key=str), [*a, *b]))
    assert found[0][0] == found[1][0]
    for mine, theirs in zip(found[0][1], found[1][1], strict=True):
        close(mine, theirs, 1e-3, 1e-3)


def packs(t, pack=lambda x: x, unpack=lambda x: x):
    x = t.ones(2, requires_grad=True)
    with t.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = x * x
    y.sum().backward()


def refuses(t, inside: bool):
    refused = t.autograd.graph.disable_saved_tensors_hooks("not here")
    hooks = t.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x)
    with hooks if inside else refused, refused if inside else hooks:
        pass


def unpack_fails(packed):
    raise ValueError("lost")


HOOK_ERRORS = {
    "pack writes": lambda t, c: packs(t, pack=lambda x: x.mul_(2)),
    "pack raises": lambda t, c: packs(t, pack=lambda x: x.nothing),
    "unpack gives no tensor": lambda t, c: packs(t, unpack=lambda x: 3),
    "unpack raises": lambda t, c: packs(t, unpack=unpack_fails),
    "refused": lambda t, c: refuses(t, False),
    "refused inside": lambda t, c: refuses(t, True),
}


@pytest.mark.parametrize("name", HOOK_ERRORS)
def test_hook_errors(name):
    if name == "pack raises":
        with pytest.raises(AttributeError):
            HOOK_ERRORS[name](nt, None)
    else:
        same_failure(HOOK_ERRORS[name])
    packs(nt)


def test_hooks_of_a_function():
    for t, _ in PAIRS:
        log = []

        class Square(t.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                y = x * x
                ctx.save_for_backward(x, y, None)
                return y

            @staticmethod
            def backward(ctx, g):
                x, y, nothing = ctx.saved_tensors
                assert nothing is None and y.tolist() == [4.0, 9.0]
                return g * x * 2

        x = t.tensor([2.0, 3.0], requires_grad=True)
        with t.autograd.graph.saved_tensors_hooks(lambda v, log=log: log.append("p") or v.clone(), lambda v: v * 1):
            y = Square.apply(x)
        (g,) = t.autograd.grad(y.sum(), x, create_graph=True)
        (h,) = t.autograd.grad(g.sum(), x)
        assert log == ["p", "p"] and g.tolist() == [4.0, 6.0] and h.tolist() == [2.0, 2.0]


def test_save_on_cpu():
    from narthex.compat import torch_npu  # noqa: F401  (adds npu:0)

    x = nt.arange(4.0).to("npu:0").requires_grad_()
    with nt.autograd.graph.save_on_cpu():
        y = x.exp() * x
    y.sum().backward()
    theirs = torch.arange(4.0).requires_grad_()
    (theirs.exp() * theirs).sum().backward()
    close(x.grad.cpu(), theirs.grad)


def test_packed_values_go_with_the_graph():
    class Box:
        pass

    alive = []

    def pack(x):
        box = Box()
        alive.append(weakref.ref(box))
        box.x = x.detach()
        return box

    x = nt.ones(2, requires_grad=True)
    for backward in (True, False):
        with nt.autograd.graph.saved_tensors_hooks(pack, lambda box: box.x):
            y = x * x
        assert [a() is not None for a in alive[-2:]] == [True, True]
        if backward:
            y.sum().backward()
        else:
            del y
        assert [a() for a in alive] == [None] * len(alive)


def test_same_numbers_from_a_network():
    """A small network trains the same with and without checkpoints."""
    losses = []
    for checkpointed in (False, True):
        nt.manual_seed(0)
        net = nt.nn.Sequential(
            *(nt.nn.Sequential(nt.nn.Linear(8, 8), nt.nn.GELU(), nt.nn.Dropout(0.1)) for _ in range(4))
        )
        optimizer = nt.optim.SGD(net.parameters(), lr=0.1)
        x = nt.randn(16, 8)
        for _ in range(3):
            y = x
            for layer in net:
                y = nt_checkpoint.checkpoint(layer, y, use_reentrant=False) if checkpointed else layer(y)
            loss = (y * y).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert losses[:3] == losses[3:]


def test_no_warning_without_need():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = nt.ones(2, requires_grad=True)
        same(nt_checkpoint.checkpoint(nt.exp, x, use_reentrant=False), torch.ones(2).exp())
