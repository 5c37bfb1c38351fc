"""as_strided and its kin: gradients of layouts that overlap, writes through them, compiled functions, set_."""

import narthex
import pytest

torch = pytest.importorskip("torch")
BOTH = (torch, narthex)


def gradient(t, size, stride, offset, shape=(12,), transposed=False):
    base = (t.arange(1.0, 13.0, dtype=t.float64) * 0.5).view(shape).requires_grad_()
    x = base.t() if transposed else base
    y = t.as_strided(x * 1 if not transposed else x, size, stride, offset)
    weights = t.arange(1.0, y.numel() + 1, dtype=t.float64).view(y.shape)
    (first,) = t.autograd.grad((y * y * weights).sum(), base, create_graph=True)
    (second,) = t.autograd.grad((first * first).sum(), base)
    return first.detach().tolist(), second.tolist()


@pytest.mark.parametrize(
    "case",
    [((3, 2), (1, 1), 2), ((2, 3), (0, 4), 1), ((5, 3), (2, 1), 0), ((2, 2), (4, 1), None), ((), (), 5)],
    ids=str,
)
def test_gradients_are_pytorchs(case):
    assert gradient(narthex, *case) == gradient(torch, *case)


def test_gradient_of_a_transposed_and_of_an_expanded_tensor():
    case = ((2, 3), (1, 2), 1, (3, 4), True)
    assert gradient(narthex, *case) == gradient(torch, *case)
    found = []
    for t in BOTH:
        x = t.arange(1.0, 4.0).requires_grad_()
        y = x.expand(2, 3).as_strided((3,), (1,))
        (y * y).sum().backward()
        found.append(x.grad.tolist())
    assert found[0] == found[1]


def test_gradient_of_scatter_is_the_derivative():
    """By differences: PyTorch's own is none for the tensor that is written into."""
    x = narthex.arange(12.0, dtype=narthex.float64).view(3, 4).requires_grad_()
    src = narthex.arange(4.0, dtype=narthex.float64).view(2, 2).requires_grad_()
    weights = narthex.arange(1.0, 13.0, dtype=narthex.float64).view(3, 4)

    def f(a, b):
        return (a.as_strided_scatter(b, (2, 2), (5, 1), 1) ** 2 * weights).sum()

    f(x, src).backward()
    for tensor, place in ((x, 0), (src, 1)):
        for k in range(tensor.numel()):
            step = narthex.zeros(tensor.numel(), dtype=narthex.float64)
            step[k] = 1e-4
            step = step.view(tensor.shape)
            up = [x.detach(), src.detach()]
            down = list(up)
            up[place], down[place] = up[place] + step, down[place] - step
            assert float((f(*up) - f(*down)) / 2e-4) == pytest.approx(float(tensor.grad.view(-1)[k]), abs=1e-5)


def test_writes_through_it_reach_the_base():
    found = []
    for t in BOTH:
        x = t.arange(6.0).requires_grad_()
        y = x * 2
        y.as_strided((2, 2), (3, 1), 1).mul_(10)
        y.sum().backward()
        found.append((y.tolist(), x.grad.tolist()))
    assert found[0] == found[1]


def test_scatter_into_a_tensor_with_gaps():
    for t in BOTH:
        x = t.arange(12.0).view(3, 4)[:, :2]
        assert t.as_strided_scatter(x, t.tensor([50.0, 60.0]), (2,), (4,), 0).tolist() == [[50, 1], [60, 5], [8, 9]]


def test_scatter_beside_an_offset_says_so():
    with pytest.raises(NotImplementedError, match="does not begin where its storage does"):
        narthex.arange(6.0)[2:].as_strided_scatter(narthex.ones(2), (2,), (1,), 3)


@pytest.mark.parametrize("mode", ["max-autotune", "reduce-overhead"])
def test_compiled(mode):
    def f(x):
        y = x + 1
        y.as_strided((2, 2), (4, 1)).mul_(3)
        return x.as_strided((3, 2), (4, 2)) * 2, y

    x = narthex.arange(12.0).view(3, 4)
    for ours, wanted in zip(narthex.compile(f, mode=mode)(x), f(torch.arange(12.0).view(3, 4)), strict=True):
        assert ours.tolist() == wanted.tolist()


def test_places_in_the_storage_end_the_graph():
    """Where an input begins in its storage is no part of what a compiled function was made for."""

    def f(x):
        return x.as_strided((2,), (1,), 1) + 1

    compiled = narthex.compile(f)
    whole = narthex.arange(8.0)
    assert compiled(whole).tolist() == [2, 3]
    assert compiled(whole[4:]).tolist() == [2, 3]
    with pytest.raises(Exception, match="as_strided"):
        narthex.compile(f, fullgraph=True)(whole)


def test_set_():
    for t in BOTH:
        x, y = t.arange(6.0), t.empty(1)
        y.set_(x.untyped_storage(), 1, (2, 2), (2, 1))
        assert y.tolist() == [[1, 2], [3, 4]] and y.storage_offset() == 1
        y.mul_(10)
        assert x.tolist() == [0, 10, 20, 30, 40, 5]
        z = t.empty(0).set_(x)
        assert z.data_ptr() == x.data_ptr() and z.shape == x.shape
        assert t.ones(3).set_().numel() == 0
        with pytest.raises(RuntimeError, match=r"."):
            t.empty(1, dtype=t.int32).set_(x)
