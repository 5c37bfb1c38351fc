"""Writes, aliases and repeated use of compiled functions: results, written inputs, histories, gradients as PyTorch."""

import narthex as nt
import pytest
import torch

from tests.front.both import over

MODES = ["max-autotune", "reduce-overhead"]
CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


@case
def input_plus_one(t, x, w):
    x += 1
    return x * w


@case
def input_by_views(t, x, w):
    x.t().mul_(2)
    part = x.view(-1)
    part[2:5].add_(1)
    x[1].zero_()
    x[0] = 5.0
    return part.clone(), x + 1, (w * part.view(3, 4)).sum()


@case
def views_of_many_kinds(t, x, w):
    y = x * w
    y.view(3, 1, 4).squeeze().add_(1)
    y.unsqueeze(0).squeeze((0,)).mul_(2)
    y.unfold(1, 2, 2)[1].sub_(3)
    y.t().view(t.int32).bitwise_and_(-4096)
    z = x * 2  # without gradients, under which parts may not be written
    a, b = z.split([1, 2])
    a.add_(0.5)
    b.split(1)[1].neg_()
    z.unbind(1)[2].exp_()
    y.t().diagonal(1).zero_()
    y.permute(-1, 0)[1:3, 0].add_(2)
    return y, z


@case
def writes_between_reads(t, x, w):
    y = x * w
    row = y[1]
    end = row[2:]
    for k in range(3):
        end.add_(k)
        y[k].mul_(2)
        row[1].sub_(1)
    first = y.sum()
    end.neg_()
    return first, row, y


@case
def result_in_place(t, x, w):
    y = (x * w).neg_()
    y.add_(1)
    return y, y.masked_fill_(x > 0, 0.5)


@case
def through_detach(t, x, w):
    y = x * w
    z = y.detach()
    z.mul_(2)
    return y, z


@case
def detached_zero(t, x, w):
    y = x * w
    y.detach().zero_()
    return y


@case
def detached_and_returned(t, x, w):
    v = x.detach()
    v.copy_(w)
    return v, x * 2


@case
def detached_leaf_by_views(t, x, w):
    v = w.detach()
    v.view(-1)[2:5].mul_(w.view(-1)[:3] * 2)
    return v.t(), v[0], x * 2


@case
def buffer_from_detached(t, x, w):
    x.mul_(0.9).add_(w.detach() * 0.1)
    return x * w


@case
def input_gets_history(t, x, w):
    x.copy_(w * 2)
    return x.sum()


@case
def inputs_returned(t, x, w):
    return x, x.t(), x[0], w, x * w, w.t()


@case
def results_share(t, x, w):
    y = x * w
    return y, y.t(), y[0], y, y.view(-1)


@case
def expanded(t, x, w):
    return (x[0].expand(3, 4) * w).sum(), (x * w)[0].expand(2, 4)


@case
def result_by_views(t, x, w):
    y = x * w
    y[0].mul_(3)
    y[:, 1:3] = w[:, 0:2]
    y.transpose(0, 1)[1].copy_(w[:, 2][:3])
    y.unsqueeze(1).squeeze(1)[2] = 1.0
    y.narrow(0, 1, 1).add_(w[0])
    return y, y.t(), y.sum(0)


@case
def filled(t, x, w):
    y = t.zeros(3, 4)
    y[1] = w[0]
    y[:, 2] = x[:, 2]
    z = y.t()
    z.mul_(2)
    return y, z


@case
def under_no_grad(t, x, w):
    with t.no_grad():
        x.mul_(0.9).add_(w * 0.1)
        y = w * 2
    return x * w, y


def run(t, function, mode, grads):
    """What three calls give: results, gradients of w and of what x was made of, x itself, who is whose memory."""
    t.manual_seed(0)
    w, source = t.randn(3, 4), t.randn(3, 4)
    w.requires_grad_(grads)

    def call(x, w):
        return function(t, x, w)

    called = t.compile(call, mode=mode, fullgraph=True) if mode else call
    seen = []
    for _ in range(3):
        x = source.clone()
        w.grad = None
        out = called(x, w)
        out = out if isinstance(out, tuple) else (out,)
        places = [[a is b, a.data_ptr() == b.data_ptr()] for a in (*out, x, w) for b in (*out, x, w)]
        wanted = [o for o in (*out, x) if o.requires_grad]
        if grads and wanted:
            sum((o * o * (k + 1)).sum() for k, o in enumerate(wanted)).backward()
        seen.append((places, [o.requires_grad for o in out], [*out, x, *([w.grad] if w.grad is not None else [])]))
    return seen


@pytest.mark.parametrize("grads", [False, True])
@pytest.mark.parametrize("mode", [None, *MODES])
@pytest.mark.parametrize("name", CASES)
def test_writes(name, mode, grads):
    for mine, theirs in zip(run(nt, CASES[name], mode, grads), run(torch, CASES[name], None, grads), strict=True):
        assert mine[:2] == theirs[:2]
        for a, b in zip(mine[2], theirs[2], strict=True):
            torch.testing.assert_close(over(a), b.detach())


WRITES = [
    lambda t, y: y.view(-1).clamp_(-1, 1),
    lambda t, y: y.squeeze(-1).add_(1),
    lambda t, y: y[0].mul_(2),
    lambda t, y: y.copy_(t.zeros(2, 2, 1, 1)),
    lambda t, y: y.mul_(y.sigmoid()),
    lambda t, y: y.flatten(1)[:, 1].zero_(),
]


@pytest.mark.parametrize("mode", [None, *MODES])
@pytest.mark.parametrize("write", WRITES)
def test_what_is_written_keeps_its_format(write, mode):
    """Of one place a channel, how an image lies is told by steps that lead nowhere; convolutions take it over."""

    def run(t, wrap):
        t.manual_seed(0)
        image, weight = t.randn(2, 3, 5, 5).contiguous(memory_format=t.channels_last), t.randn(2, 3, 5, 5)

        def f(image, weight):
            y = t.nn.functional.conv2d(image, weight)
            write(t, y)
            return t.nn.functional.conv2d(y, y, padding=1)

        return wrap(f)(image, weight)

    mine = run(nt, (lambda f: nt.compile(f, mode=mode, fullgraph=True)) if mode else (lambda f: f))
    theirs = run(torch, lambda f: f)
    assert mine.stride() == theirs.stride()
    torch.testing.assert_close(over(mine), theirs)


@pytest.mark.parametrize("mode", MODES)
def test_input_with_history(mode):
    """An input that is a result of something else, written: the caller's tensor has the new history."""

    def program(t, compiled):
        t.manual_seed(0)
        w, b = t.randn(3, requires_grad=True), t.randn(3)

        def f(x, y, w):
            x.mul_(w)
            y.add_(x)
            return x.sum() + 1, y.view(3, 1)

        f, seen = compiled(f), []
        for _ in range(2):
            w.grad, x, y = None, w * 2, b.clone()
            loss, z = f(x, y, w)
            (loss + (x * y).sum() * 2 + z.sum() * 3).backward()
            seen += [loss, z, x, y, w.grad]
        return seen

    mine = program(nt, lambda f: nt.compile(f, mode=mode, fullgraph=True))
    for a, b in zip(mine, program(torch, lambda f: f), strict=True):
        torch.testing.assert_close(over(a), b.detach())


@pytest.mark.parametrize("mode", MODES)
def test_what_autograd_refuses(mode):
    x, w = nt.randn(3), nt.randn(3, requires_grad=True)

    def saved_then_written(x, w):
        y = x * w
        x.mul_(2)
        return y + x

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        nt.compile(saved_then_written, mode=mode, fullgraph=True)(x, w).sum().backward()
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        nt.compile(lambda w: w.mul_(2), mode=mode, fullgraph=True)(w)


def forward(self, x):
    y = self.linear(x).tanh()
    if self.training:
        self.mean.mul_(0.9).add_(y.detach().mean(0), alpha=0.1)
    return (y - self.mean) * 2


def steps(t, mode):
    """Calls that pile up before one backward, a second backward, weights changed in between, train and eval."""
    t.manual_seed(3)
    net = type("Net", (t.nn.Module,), {"forward": forward})()
    net.linear = t.nn.Linear(4, 4)
    net.register_buffer("mean", t.zeros(4))
    call = t.compile(net, mode=mode, fullgraph=True) if mode else net
    x, seen = t.randn(5, 4), []
    for i in range(4):
        net.train(i % 2 == 0)
        net.zero_grad()
        total = call(x).sum() + call(x * 2).pow(2).sum()
        total.backward(retain_graph=True)
        once = net.linear.weight.grad.clone()
        total.backward()
        with t.no_grad():
            net.linear.weight.add_(net.linear.weight.grad, alpha=-0.01)
            seen.append(call(x))
        seen += [total, once, net.linear.weight.grad.clone(), net.linear.bias.grad.clone(), net.mean.clone()]
    return seen


@pytest.mark.parametrize("mode", [None, *MODES])
def test_repeated_use(mode):
    for mine, theirs in zip(steps(nt, mode), steps(torch, None), strict=True):
        torch.testing.assert_close(over(mine), theirs.detach(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_many_pieces(mode):
    """The gradient of one piece of 300 is a cat of 300, in a graph that writes as well."""

    def f(x):
        y = nt.zeros(2)
        y[0] = 3.0
        return (x.split(2)[7] * y).sum()

    x = nt.randn(600, requires_grad=True)
    nt.compile(f, mode=mode, fullgraph=True)(x).backward()
    assert x.grad.tolist() == [3.0 if i == 14 else 0.0 for i in range(600)]


@pytest.mark.parametrize("mode", MODES)
def test_a_saved_view_of_an_input_that_is_written(mode):
    """The backward makes y again from what a view of an input held before the same call wrote to that input."""

    def f(t, b, d):
        v = b.select(-1, 1)
        y = v.add(d, alpha=3)
        v[1:] += 2
        return (y**3).sum() + (d**2).sum()

    def run(t, wrap):
        b, d = t.arange(6.0).view(3, 2), t.arange(15.0).view(5, 3).requires_grad_()
        wrap(lambda b, d: f(t, b, d))(b, d).backward()
        return d.grad.tolist(), b.tolist()

    assert run(nt, lambda g: nt.compile(g, mode=mode)) == run(torch, lambda g: g)


@pytest.mark.parametrize("mode", MODES)
def test_many_inputs_results_and_saved_values(mode):
    """Outputs that are one value twice, an input, or saved too; operators over many tensors."""

    def f(*xs):
        ys = [x.tanh() for x in xs]
        total = nt.stack([*ys, *ys[:20]]).sum(0)
        return [*ys, ys[3], xs[5], xs[5].detach(), total, total.view(2, 2), *[y * total for y in ys]]

    def inputs():
        nt.manual_seed(0)
        return [nt.randn(4, requires_grad=k % 3 != 0) for k in range(60)]

    mine, theirs = inputs(), inputs()
    compiled = nt.compile(f, mode=mode, fullgraph=True)
    for _ in range(2):
        got, expected = compiled(*mine), f(*theirs)
        assert (got[60] is got[3]) == (expected[60] is expected[3])
        assert got[61] is mine[5] and got[62] is not mine[5]
        assert len(got) == len(expected)
        for one, other in zip(got, expected, strict=True):
            assert nt.equal(one, other) and one.requires_grad == other.requires_grad
        sum(y.sum() for y in got if y.requires_grad).backward()
        sum(y.sum() for y in expected if y.requires_grad).backward()
    for one, other in zip(mine, theirs, strict=True):
        assert (one.grad is None) == (other.grad is None)
        assert one.grad is None or nt.allclose(one.grad, other.grad)


def test_writes_through_views_of_views_grow_with_either():
    """n writes through a chain of k views take n calls, and the views are undone once."""

    def calls(n, k):
        text = ["graph captured {", '  %x = placeholder "x" : f32[64] cpu']
        text += ["  %v0 = call aten::clone(%x) : f32[64] cpu"]
        text += [f"  %v{i + 1} = call aten::slice.Tensor(%v{i}, 0, 1) : f32[{63 - i}] cpu" for i in range(k)]
        text += [f"  %w{i} = call aten::add_.Tensor(%v{k}, 1) : f32[{64 - k}] cpu" for i in range(n)]
        text += ["  %r = call aten::neg(%v0) : f32[64] cpu", "  return (%r)", "}"]
        forward = nt._C.Graph.parse("\n".join(text)).aot(False).forward
        assert forward(nt.zeros(64))[0].tolist() == [-n if i >= k else 0 for i in range(64)]
        return forward.text().count("call ")

    small = calls(20, 10)
    assert small < 20 + 2 * 10 + 5
    assert calls(40, 20) <= 2 * small


@pytest.mark.parametrize("view", [lambda y: y.expand(3, 4), lambda y: y.unfold(0, 3, 1)])
def test_writes_through_overlapping_views_are_refused(view):
    with pytest.raises(NotImplementedError, match="write to a copy"):
        nt.compile(lambda x: (view(y := x + 1)[0].add_(1), y)[1])(nt.ones(4))


def test_inputs_written_through_several_views():
    def f(x, y):
        x.t().mul_(2)
        y.t().add_(x.sum())
        return x + 1

    def run(t, wrap):
        x, y = t.arange(6.0).view(2, 3), t.arange(3.0)
        return [wrap(f)(x, y).tolist(), x.tolist(), y.tolist()]

    assert run(nt, nt.compile) == run(torch, lambda g: g)


def saved_and_written(x, y):
    z = x.sin()
    product = z * y
    z.mul_(2)
    return product, z


def without_a_derivative(x, y):
    return nt.ops.aten._standard_gamma_grad(x.abs() + 1, y.abs() + 1)


@pytest.mark.parametrize("mode", ["max-autotune", "reduce-overhead"])
@pytest.mark.parametrize("function", [saved_and_written, without_a_derivative])
def test_what_the_backward_refuses_it_refuses_when_it_runs(function, mode):
    """The forward gives eager's results; the error is eager's, and its place."""
    compiled = nt.compile(function, mode=mode, fullgraph=True)
    for _ in range(2):
        x, y = nt.randn(3, requires_grad=True), nt.randn(3, requires_grad=True)
        told = []
        for call in (function, compiled):
            results = call(x, y)
            first = results[0] if isinstance(results, tuple) else results
            with pytest.raises((RuntimeError, NotImplementedError)) as error:
                first.sum().backward()
            told.append((first.tolist(), first.requires_grad, type(error.value), str(error.value)))
        assert told[0] == told[1]


def test_a_written_argument_whose_backward_refuses():
    def function(x, y):
        z = x * y
        y.mul_(2)
        return z

    compiled = nt.compile(function, fullgraph=True)
    x, y = nt.ones(3, requires_grad=True), nt.full((3,), 2.0)
    result = compiled(x, y)
    assert result.tolist() == [2.0] * 3 and y.tolist() == [4.0] * 3 and result.requires_grad
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


@pytest.mark.parametrize("mode", MODES)
def test_parts_written_in_place_keep_the_order_of_their_dimensions(mode):
    def part(a):
        rows = a[:, 1:]
        every_other = rows[::2]
        rows[rows > 1] = 2
        return -every_other, rows * 2

    made = [nt.arange(48).reshape(3, 2, 4, 2).permute(0, 2, 1, 3) for _ in range(2)]
    compiled = nt.compile(part, mode=mode, fullgraph=True)(made[1])
    for a, b in zip([*part(made[0]), made[0]], [*compiled, made[1]]):
        assert a.stride() == b.stride() and a.tolist() == b.tolist()


def test_a_part_of_what_is_written_is_given_back():
    """Eager mode refuses the gradient of the view, since `split` gives several (docs/differences.md)."""

    def part(x, factor):
        first = x.split([1, 2])[1]
        x.mul_(factor)
        return first

    factor, x = nt.tensor([1.0, 2.0, 3.0], requires_grad=True), nt.ones(3)
    first = nt.compile(part, fullgraph=True)(x, factor)
    assert first.tolist() == [2, 3] and first.data_ptr() == x[1:].data_ptr()
    first.sum().backward()
    assert factor.grad.tolist() == [0, 1, 1]
    with pytest.raises(RuntimeError, match="returns multiple views"):
        part(nt.ones(3), factor).sum().backward()
