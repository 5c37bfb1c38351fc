"""Convolutions beside PyTorch's: every form, gradients, memory formats, threads, layers from the same seed."""

from __future__ import annotations

import random
from typing import Any

import narthex as nt
import pytest
import torch

from tests.ops.build import to_ours


def leaf(theirs: torch.Tensor) -> Any:
    return to_ours(theirs.detach().clone()).requires_grad_()


def close(ours: Any, theirs: torch.Tensor, tolerance: float = 1e-4) -> None:
    assert tuple(ours.shape) == tuple(theirs.shape)
    scale = max(1.0, theirs.abs().max().item()) if theirs.numel() else 1.0
    got = torch.from_dlpack(ours.detach().contiguous())
    assert (got - theirs.detach()).abs().max().item() <= tolerance * scale if theirs.numel() else True


def drawn(seed: int) -> tuple[list[Any], tuple[Any, ...]]:
    """Arguments of a convolution."""
    r = random.Random(seed)
    k, groups, transposed = r.choice([1, 2, 2, 3]), r.choice([1, 1, 2, 3]), r.random() < 0.4
    inputs, outputs = groups * r.choice([1, 2, 5, 17]), groups * r.choice([1, 2, 4, 13])
    kernel = [r.randint(1, 3) for _ in range(k)]
    stride, dilation = [r.randint(1, 3) for _ in range(k)], [r.randint(1, 2) for _ in range(k)]
    padding = [r.randint(0, 2) for _ in range(k)]
    more = [r.randint(0, max(stride[i], dilation[i]) - 1) if transposed else 0 for i in range(k)]
    size = [r.randint(5, (70, 24, 9)[k - 1]) for _ in range(k)]
    weight = (inputs, outputs // groups) if transposed else (outputs, inputs // groups)
    torch.manual_seed(seed)
    dtype = r.choice([torch.float32, torch.float32, torch.float64])
    tensors = [torch.randn(s, dtype=dtype) for s in ((2, inputs, *size), (*weight, *kernel), (outputs,))]
    return tensors, (stride, padding, dilation, transposed, more, groups)


@pytest.mark.parametrize("seed", range(24))
def test_any_form(seed: int) -> None:
    tensors, rest = drawn(seed)
    theirs = [t.requires_grad_() for t in tensors]
    ours = [leaf(t) for t in tensors]
    wanted, got = torch.convolution(*theirs, *rest), nt.convolution(*ours, *rest)
    close(got, wanted)
    g = torch.randn_like(wanted)
    wanted.backward(g)
    got.backward(to_ours(g))
    for mine, other in zip(ours, theirs):
        close(mine.grad, other.grad)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_no_channels(dims: int) -> None:
    """The result has none either, whatever the weight says; weight and bias have gradients."""
    theirs = [torch.ones(size, requires_grad=True) for size in ((1, 0, *[4] * dims), (2, 0, *[2] * dims), (2,))]
    ours = [leaf(t.detach()) for t in theirs]
    name = f"conv{dims}d"
    wanted, got = getattr(torch, name)(*theirs), getattr(nt, name)(*ours)
    assert got.shape == wanted.shape == (1, 0, *[3] * dims)
    wanted.sum().backward()
    got.sum().backward()
    for mine, other in zip(ours, theirs):
        close(mine.grad, other.grad)


@pytest.mark.parametrize("kernel", [(1, 1), (3, 3), (5, 5), (7, 7), (1, 9), (4, 2), (33, 1), (1, 33)])
def test_a_channel_alone(kernel: tuple[int, int]) -> None:
    """Depthwise convolutions of few and many columns; channels that end where the tensor does; infinities and NaN of
    channels beside them."""
    r, high = random.Random(sum(kernel)), max(kernel)
    for _ in range(60):
        groups, rows, images = r.choice([1, 2, 7]), r.choice([1, 1, 2]), r.choice([1, 2])
        stride, padding = [r.choice([1, 1, 2, 3]), r.choice([1, 1, 2, 3])], [r.randint(0, k // 2 + 1) for k in kernel]
        dilation = [r.choice([1, 1, 2]) if k < 9 else 1 for k in kernel]
        size = [max(r.choice([1, 4, 7, 14, 16, 33, 50, high]), d * (k - 1) + 1) for d, k in zip(dilation, kernel)]
        shapes = (images, groups, *size), (groups * rows, 1, *kernel), (groups * rows,)
        tensors = [torch.randn(shape) for shape in shapes]
        if groups > 1:
            tensors[0][:, r.randrange(groups)] = r.choice([float("nan"), float("inf"), 1.0])
        wanted = torch.conv2d(*tensors, stride, padding, dilation, groups)
        got = torch.from_dlpack(nt.conv2d(*(to_ours(t) for t in tensors), stride, padding, dilation, groups))
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4, equal_nan=True)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("kernel", [3, 5, 7])
def test_rows_of_a_channel(kernel: int, stride: int) -> None:
    """Depthwise convolutions of every width, whose vectors lie within a row, at its ends and beyond them."""
    for width in range(kernel, 52):
        high, padding = kernel + width % 9, (width % (kernel // 2 + 2), width // 2 % (kernel // 2 + 2))
        tensors = [torch.randn(shape) for shape in ((1, 5, high, width), (5, 1, kernel, kernel), (5,))]
        wanted = torch.conv2d(*tensors, stride, padding, 1, 5)
        close(nt.conv2d(*(to_ours(t) for t in tensors), stride, padding, 1, 5), wanted)


@pytest.mark.parametrize("kernel", [(1, 1), (3, 3), (5, 5), (2, 4), (1, 7), (9, 9), (33, 1), (1, 33)])
def test_gradients_of_a_channel(kernel: tuple[int, int]) -> None:
    """Of depthwise convolutions, of 3 x 3 at every width, and of transposed ones; a channel keeps its infinities."""
    r, high = random.Random(sum(kernel)), max(kernel)
    for width in range(max(kernel[1], 4), 52, 1 if kernel == (3, 3) else 5):
        images, stride = r.choice([1, 3]), r.choice([1, 1, 1, 2])
        padding = [r.randint(0, k // 2 + 1) for k in kernel]
        dilation = [r.choice([1, 1, 2]) if k < 9 else 1 for k in kernel]
        height = r.choice([4, 7, 14, max(4, high)])
        size = [max(n, d * (k - 1) + 1) for n, d, k in zip((height, width), dilation, kernel)]
        for convolve in ("conv2d", "conv_transpose2d"):
            theirs = [torch.randn(shape) for shape in ((images, 5, *size), (5, 1, *kernel), (5,))]
            theirs[0][:, 2] = torch.inf
            ours = [leaf(t) for t in theirs]
            theirs = [t.requires_grad_() for t in theirs]
            rest = (dilation, 5) if convolve == "conv2d" else (0, 5, dilation)
            wanted = getattr(torch.nn.functional, convolve)(*theirs, stride, padding, *rest)
            got = getattr(nt.nn.functional, convolve)(*ours, stride, padding, *rest)
            g = torch.randn_like(wanted)
            wanted.backward(g)
            got.backward(to_ours(g))
            others = torch.tensor([0, 1, 3, 4])
            close(ours[0].grad, theirs[0].grad)
            close(ours[1].grad[to_ours(others)], theirs[1].grad[others])
            close(ours[2].grad, theirs[2].grad)


@pytest.mark.parametrize("shape", [(2, 3, 9, 8), (1, 16, 7, 7), (2, 6, 5, 5)])
def test_channels_last(shape: tuple[int, ...]) -> None:
    x, w = torch.randn(shape), torch.randn(6, shape[1], 3, 3)
    x = x.to(memory_format=torch.channels_last)
    wanted, got = torch.conv2d(x, w, padding=1), nt.conv2d(to_ours(x), to_ours(w), padding=1)
    assert tuple(got.stride()) == tuple(wanted.stride())
    close(got, wanted)


def beside(seed: int) -> tuple[list[torch.Tensor], tuple[Any, ...]]:
    """Arguments of a convolution of channels that lie side by side: windows of one place, or groups of one channel."""
    r = random.Random(seed)
    k, alone, transposed = r.choice([2, 2, 3]), r.random() < 0.6, r.random() < 0.3
    groups = r.choice([16, 17, 24, 70, 130, 290]) if alone else r.choice([1, 1, 2])
    inputs, outputs = (groups * (1 if alone else r.choice(some)) for some in ([2, 16, 33, 300], [5, 16, 70]))
    kernel = [r.choice([1, 2, 3, 5]) if alone else 1 for _ in range(k)]
    stride, dilation = ([r.choice([1, 1, most]) if alone else 1 for _ in range(k)] for most in (3, 2))
    padding = [r.randint(0, n // 2 + 1) if alone else 0 for n in kernel]
    least = [(n - 1) * d + 1 + 2 * p for n, d, p in zip(kernel, dilation, padding)]
    size = [max(r.choice([3, 7, 12, 20]) // (k - 1), n) for n in least]
    weight = (inputs, outputs // groups) if transposed else (outputs, inputs // groups)
    torch.manual_seed(seed)
    x = torch.randn(r.choice([1, 3]), inputs, *size)
    x = x.contiguous(memory_format=torch.channels_last if k == 2 else torch.channels_last_3d)
    rest = (stride, padding, dilation, transposed, [0] * k, groups)
    return [x, torch.randn(*weight, *kernel), torch.randn(outputs)], rest


@pytest.mark.parametrize("seed", range(60))
def test_channels_beside_each_other(seed: int) -> None:
    tensors, rest = beside(seed)
    theirs = [t.requires_grad_() for t in tensors]
    ours = [leaf(t) for t in tensors]
    wanted, got = torch.convolution(*theirs, *rest), nt.convolution(*ours, *rest)
    close(got, wanted, 2e-5)
    g = torch.randn_like(wanted)
    if seed % 3 == 0:
        g = g.contiguous()
    wanted.backward(g)
    got.backward(to_ours(g))
    for mine, other in zip(ours, theirs):
        close(mine.grad, other.grad, 2e-5)


@pytest.mark.parametrize("of", [(16, 16, 1), (96, 96, 3), (40, 1, 1), (200, 1, 3)])
def test_threads_do_not_show_beside(of: tuple[int, int, int]) -> None:
    channels, read, kernel = of
    x = nt.randn(3, channels, 15, 9).contiguous(memory_format=nt.channels_last).requires_grad_()
    w, found, before = nt.randn(channels, read, kernel, kernel).requires_grad_(), [], nt.get_num_threads()
    try:
        for n in (1, 2, 3, 7):
            nt.set_num_threads(n)
            y = nt.conv2d(x, w, None, 1, kernel // 2, 1, channels // read)
            found.append([y, *nt.autograd.grad((y * y).sum(), [x, w])])
    finally:
        nt.set_num_threads(before)
    for other in found[1:]:
        assert all(nt.equal(a, b) for a, b in zip(found[0], other))


@pytest.mark.parametrize("groups", [1, 4, 16])
def test_threads_do_not_show(groups: int) -> None:
    """The same bits for every number of threads, forward and backward."""
    x, w = nt.randn(3, 16, 33, 29).requires_grad_(), nt.randn(16, 16 // groups, 3, 3).requires_grad_()
    found, before = [], nt.get_num_threads()
    try:
        for n in (1, 2, 3, 7):
            nt.set_num_threads(n)
            y = nt.conv2d(x, w, None, 2, 1, 1, groups)
            found.append([y, *nt.autograd.grad(y.sum(), [x, w])])
    finally:
        nt.set_num_threads(before)
    for other in found[1:]:
        assert all(nt.equal(a, b) for a, b in zip(found[0], other))


LAYERS = [
    ("Conv1d", (4, 6, 3), {"stride": 2, "padding": 1}, (2, 4, 9)),
    ("Conv2d", (4, 6, 3), {"padding": "same", "dilation": 2, "groups": 2}, (2, 4, 9, 8)),
    ("Conv2d", (4, 6, (4, 3)), {"padding": "same"}, (2, 4, 9, 8)),
    ("Conv2d", (4, 6, 3), {"padding": (2, 1), "padding_mode": "reflect", "bias": False}, (4, 9, 8)),
    ("Conv2d", (4, 6, 3), {"padding": 2, "padding_mode": "circular"}, (2, 4, 9, 8)),
    ("Conv3d", (2, 3, 2), {"padding": 1, "padding_mode": "replicate"}, (2, 2, 4, 5, 3)),
    ("ConvTranspose1d", (4, 6, 3), {"stride": 2, "output_padding": 1}, (2, 4, 5)),
    ("ConvTranspose2d", (4, 6, 3), {"stride": 2, "padding": 1, "groups": 2}, (2, 4, 5, 6)),
    ("ConvTranspose3d", (2, 3, 2), {"dilation": 2}, (2, 2, 3, 4, 5)),
]


@pytest.mark.parametrize("name, args, kwargs, shape", LAYERS)
def test_layers(name: str, args: tuple, kwargs: dict[str, Any], shape: tuple[int, ...]) -> None:
    """The numbers that PyTorch draws, its result, its text."""
    torch.manual_seed(5)
    nt.manual_seed(5)
    theirs, ours = getattr(torch.nn, name)(*args, **kwargs), getattr(nt.nn, name)(*args, **kwargs)
    assert repr(ours) == repr(theirs)
    for (key, mine), (other_key, other) in zip(ours.state_dict().items(), theirs.state_dict().items(), strict=True):
        assert key == other_key and torch.equal(torch.from_dlpack(mine.detach()), other)
    x = torch.randn(shape)
    close(ours(to_ours(x)), theirs(x))


def test_output_size() -> None:
    theirs, ours = torch.nn.ConvTranspose2d(2, 3, 3, 2), nt.nn.ConvTranspose2d(2, 3, 3, 2)
    x = torch.randn(1, 2, 4, 5)
    assert tuple(ours(to_ours(x), output_size=(10, 12)).shape) == tuple(theirs(x, output_size=(10, 12)).shape)
    with pytest.raises(ValueError, match="requested an output size of"):
        ours(to_ours(x), output_size=(20, 12))


WRONG = [
    ((2, 3, 8, 8), (6, 4, 3, 3), {}),
    ((2, 3), (6, 3, 3, 3), {}),
    ((2, 3, 2, 2), (6, 3, 3, 3), {}),
    ((2, 3, 8, 8), (6, 3, 3, 3), {"stride": 0}),
    ((2, 3, 8, 8), (6, 3, 3, 3), {"padding": -1}),
    ((2, 3, 8, 8), (6, 3, 3, 3), {"groups": 4}),
    ((2, 3, 8, 8), (6, 3, 3, 3), {"padding": "same", "stride": 2}),
]


@pytest.mark.parametrize("x, w, kwargs", WRONG)
def test_errors(x: tuple[int, ...], w: tuple[int, ...], kwargs: dict[str, Any]) -> None:
    """PyTorch's text."""
    with pytest.raises(RuntimeError) as theirs:
        torch.conv2d(torch.zeros(x), torch.zeros(w), **kwargs)
    with pytest.raises(RuntimeError) as ours:
        nt.conv2d(nt.zeros(x), nt.zeros(w), **kwargs)
    assert str(theirs.value).split("\n")[0] in str(ours.value)
