"""Convolutions of float64 and whole numbers of every form, their derivatives too, beside PyTorch's."""

import random

import narthex as nt
import pytest
import torch


def draw(r):
    """The arguments of aten::convolution as lists, tensors of float64."""
    dims, groups, transposed = r.choice([1, 2, 3]), r.choice([1, 2, 3]), r.random() < 0.4
    inputs, outputs = groups * r.randint(1, 3), groups * r.randint(1, 3)
    size, kernel = [[r.randint(1, most) for _ in range(dims)] for most in (9, 3)]
    stride, dilation = [[r.randint(1, 3) for _ in range(dims)] for _ in range(2)]
    padding = [r.randint(0, 3) for _ in range(dims)]
    most = [max(pair) - 1 for pair in zip(stride, dilation)]
    more = [r.randint(0, n) if transposed else 0 for n in most]
    x = torch.randn(r.randint(1, 2), inputs, *size, dtype=torch.float64)
    weight = (inputs, outputs // groups) if transposed else (outputs, inputs // groups)
    w, b = torch.randn(*weight, *kernel, dtype=torch.float64), torch.randn(outputs, dtype=torch.float64)
    return (x, w, b), (stride, padding, dilation, transposed, more, groups)


def run(m, tensors, form, dtype):
    x, w, b = (m.tensor((5 * t).tolist(), dtype=m.float64).to(dtype) for t in tensors)
    if not dtype.is_floating_point:
        return [m.convolution(x, w, b, *form)]
    for t in (x, w, b):
        t.requires_grad_()
    y = m.convolution(x, w, b, *form)
    return [y.detach(), *m.autograd.grad((y * y).sum(), (x, w, b))]


@pytest.mark.parametrize("dtype", ["float64", "int64"])
def test_any_form(dtype):
    torch.manual_seed(0)
    r, done = random.Random(0), 0
    while done < 150:
        tensors, form = draw(r)
        try:
            expected = run(torch, tensors, form, getattr(torch, dtype))
        except RuntimeError:
            continue
        done += 1
        for e, f in zip(expected, run(nt, tensors, form, getattr(nt, dtype))):
            assert torch.allclose(e, torch.tensor(f.tolist(), dtype=e.dtype).view(e.shape), rtol=1e-9, atol=1e-9), form


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("size", [(3, 7), (5, 2), (2, 2), (4, 6)])
def test_windows_of_one_place_that_reach_one_place_of_several(size, groups):
    """Channels side by side; the stride takes one row or column, whose neighbours have gradients of zero."""
    torch.manual_seed(0)
    x, w = torch.randn(2, 32, *size), torch.randn(34, 32 // groups, 1, 1)
    stride, found = [min(n, 3) for n in size], []
    for m, dtype in ((nt, "float32"), (torch, "float64")):
        a, b = (m.tensor(t.tolist(), dtype=getattr(m, dtype)) for t in (x, w))
        a = a.contiguous(memory_format=m.channels_last) if m is nt else a
        y = m.nn.functional.conv2d(a.requires_grad_(), b.requires_grad_(), None, stride, groups=groups)
        found.append([y.tolist(), *(g.tolist() for g in m.autograd.grad((y * y).sum(), (a, b)))])
    for e, f in zip(*found):
        assert torch.allclose(torch.tensor(e), torch.tensor(f), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("images", [1, 3, 9])
@pytest.mark.parametrize("kernel", [(1, 1), (4, 4), (3, 5)])
def test_a_small_side_of_one_place(kernel, images, bias):
    """The big side is one window: a result of one place, and what such a one spreads to."""
    torch.manual_seed(0)
    big, small, weight = torch.randn(images, 7, *kernel), torch.randn(images, 18, 1, 1), torch.randn(18, 7, *kernel)
    found = []
    for m, dtype in ((nt, "float32"), (torch, "float64")):
        x, y, w = (m.tensor(t.tolist(), dtype=getattr(m, dtype)).requires_grad_() for t in (big, small, weight))
        each = [m.ones(n, dtype=getattr(m, dtype)) / 3 if bias else None for n in (7, 18)]
        made = m.nn.functional.conv_transpose2d(y, w, each[0], stride=2), m.nn.functional.conv2d(x, w, each[1])
        grads = *m.autograd.grad((made[0] ** 2).sum(), (y, w)), *m.autograd.grad((made[1] ** 2).sum(), (x, w))
        found.append([t.tolist() for t in (*made, *grads)])
    for e, f in zip(*found):
        assert torch.allclose(torch.tensor(e), torch.tensor(f), rtol=1e-4, atol=1e-3)
