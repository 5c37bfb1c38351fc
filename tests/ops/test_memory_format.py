"""channels_last and channels_last_3d: asked for, recognised, and kept through operators as PyTorch keeps them."""

from __future__ import annotations

from typing import Any

import narthex as nt
import pytest
import torch

IMAGES = {4: ("channels_last", (2, 6, 4, 5)), 5: ("channels_last_3d", (2, 6, 4, 5, 3))}


def image(t: Any, ndim: int) -> Any:
    word, size = IMAGES[ndim]
    numel = 1
    for n in size:
        numel *= n
    return (t.arange(0.0, numel).view(size) / numel).contiguous(memory_format=getattr(t, word))


KEEPS = {
    "relu": lambda t, x: x.relu(),
    "x + x": lambda t, x: x + x,
    "x + row": lambda t, x: x + t.ones(x.shape[-1]),
    "x + channel": lambda t, x: x + t.ones(x.shape[1], *[1] * (x.ndim - 2)),
    "x + contiguous": lambda t, x: x + x.contiguous(),
    "where": lambda t, x: t.where(x > 0.5, x, 0.0),
    "double": lambda t, x: x.double(),
    "half and back": lambda t, x: x.half().float(),
    "clone": lambda t, x: x.clone(),
    "empty_like": lambda t, x: t.empty_like(x).fill_(1.0),
    "zeros_like, rows": lambda t, x: t.zeros_like(x, memory_format=t.contiguous_format),
    "to": lambda t, x: x.contiguous().to(memory_format=t.channels_last if x.ndim == 4 else t.channels_last_3d),
    "cat": lambda t, x: t.cat([x, x], 1),
    "pad": lambda t, x: t.nn.functional.pad(x, [1, 1]),
    "group_norm": lambda t, x: t.nn.functional.group_norm(x, 2),
    "group_norm with weight": lambda t, x: t.nn.functional.group_norm(x, 3, t.ones(6), t.ones(6)),
    "batch_norm": lambda t, x: t.nn.functional.batch_norm(x, t.zeros(6), t.ones(6)),
    "batch_norm, training": lambda t, x: t.nn.functional.batch_norm(x, t.zeros(6), t.ones(6), training=True),
    "softmax": lambda t, x: t.softmax(x, 1),
    "log_softmax": lambda t, x: t.log_softmax(x, -1),
    "softmax in double": lambda t, x: t.softmax(x, 1, dtype=t.float64),
    "dropout off": lambda t, x: t.nn.functional.dropout(x, 0.5, training=False),
    "sum": lambda t, x: x.sum((2, 3), keepdim=True),
    "mean over channels": lambda t, x: x.mean(1, keepdim=True),
    "cumsum": lambda t, x: x.cumsum(1),
    "sort": lambda t, x: x.sort(1)[0],
    "flip": lambda t, x: x.flip(-1),
    "index_select": lambda t, x: x.index_select(1, t.tensor([0, 2])),
    "x[mask]": lambda t, x: x[:, t.tensor([1, 0])],
    "slice": lambda t, x: x[:, :, 1:] * 2,
    "masked_fill": lambda t, x: x.masked_fill(x > 0.5, 0.0),
    "tril": lambda t, x: x.tril(),
    "prelu": lambda t, x: t.nn.functional.prelu(x, t.ones(6)),
    "gather": lambda t, x: x.gather(1, (x * 5).long()),
    "interpolated": lambda t, x: t.lerp(x, x, 0.5),
    "argmax": lambda t, x: x.argmax(1),
    "amax": lambda t, x: x.amax(1, keepdim=True),
    "pow": lambda t, x: x**2,
    "x > 0": lambda t, x: x > 0,
    "repeat": lambda t, x: x.repeat(1, 2, *[1] * (x.ndim - 2)),
    "copy_": lambda t, x: t.empty_like(x).copy_(x.contiguous()),
    "rand_like": lambda t, x: t.rand_like(x) * 0,
}


@pytest.mark.parametrize("ndim", IMAGES)
@pytest.mark.parametrize("name", KEEPS)
def test_operators_keep_the_format(name: str, ndim: int) -> None:
    ours, theirs = (KEEPS[name](t, image(t, ndim)) for t in (nt, torch))
    assert tuple(ours.shape) == tuple(theirs.shape)
    assert tuple(ours.stride()) == tuple(theirs.stride())
    torch.testing.assert_close(
        torch.from_dlpack(ours), theirs, rtol=1e-4, atol=1e-4
    )  # PyTorch's norms lose digits here


# Dimensions of one place leave open how a tensor lies; its steps there say what is meant, and convolutions ask them.
STEPS = [((2, 6, 1, 1), (6, 1, 6, 6)), ((2, 6, 1, 1), (6, 1, 1, 1)), ((1, 6, 2, 2), (1, 1, 12, 6))]
STEPS += [((3, 1), (1, 3)), ((0, 4), (1, 0))]
MAKES = {
    "clone": lambda t, x: x.clone(),
    "double": lambda t, x: x.double(),
    "zeros_like": lambda t, x: t.zeros_like(x),
    "zeros_like, rows": lambda t, x: t.zeros_like(x, memory_format=t.contiguous_format),
    "rand_like": lambda t, x: t.rand_like(x),
    "flip": lambda t, x: x.flip(0),
    "sort": lambda t, x: x.sort(0)[0],
    "relu": lambda t, x: x.relu(),
    "neg": lambda t, x: -x,
    "sigmoid": lambda t, x: x.sigmoid(),
    "gelu": lambda t, x: t.nn.functional.gelu(x),
    "x + 1": lambda t, x: x + 1,
    "x * x": lambda t, x: x * x,
    "x**2": lambda t, x: x**2,
    "cat": lambda t, x: t.cat([x, x]),
    "cumsum": lambda t, x: x.cumsum(0),
    "tril": lambda t, x: x.tril(),
    "contiguous": lambda t, x: x.contiguous(),
    "copy_": lambda t, x: t.empty_like(x).copy_(x.contiguous()),
}


@pytest.mark.parametrize("size, steps", STEPS)
@pytest.mark.parametrize("name", MAKES)
def test_steps_of_dimensions_of_one_place(name: str, size: tuple[int, ...], steps: tuple[int, ...]) -> None:
    ours, theirs = (MAKES[name](t, t.arange(32.0).as_strided(size, steps)) for t in (nt, torch))
    assert tuple(ours.stride()) == tuple(theirs.stride())


@pytest.mark.parametrize("ndim", IMAGES)
def test_gradients_keep_the_format(ndim: int) -> None:
    found = []
    for t in (nt, torch):
        x = image(t, ndim).requires_grad_()
        (t.nn.functional.group_norm(x * 2, 2) * t.arange(1.0, 6.0 if ndim == 4 else 4.0)).sum().backward()
        found.append((tuple(x.grad.stride()), x.grad.flatten().tolist()))
    assert found[0][0] == found[1][0]
    assert found[0][1] == pytest.approx(found[1][1], abs=1e-3)


FORMATS = ["contiguous_format", "channels_last", "channels_last_3d"]
SIZES = [(2, 3, 4, 5), (2, 1, 4, 5), (2, 3, 1, 1), (1, 3, 4, 5), (2, 3, 4, 5, 6), (2, 1, 4, 5, 6), (3, 4), ()]


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_is_contiguous_is_asked_for_a_format(size: tuple[int, ...]) -> None:
    def told(t: Any) -> list[bool]:
        x = t.zeros(size)
        formats = [t.channels_last if len(size) == 4 else t.channels_last_3d] if len(size) > 3 else []
        tensors = [x] + [x.contiguous(memory_format=word) for word in formats]
        return [one.is_contiguous(memory_format=getattr(t, word)) for one in tensors for word in FORMATS] + [
            one.is_contiguous() for one in tensors
        ]

    assert told(nt) == told(torch)


def test_contiguous_gives_itself_where_it_lies_so() -> None:
    for ndim in IMAGES:
        x = image(nt, ndim)
        assert x.contiguous(memory_format=getattr(nt, IMAGES[ndim][0])) is x
        assert x.contiguous() is not x and x.contiguous().is_contiguous()


def test_a_format_of_another_rank_is_refused() -> None:
    for t in (nt, torch):
        with pytest.raises(RuntimeError, match="required rank 4 tensor to use channels_last format"):
            t.zeros(2, 3, 4).contiguous(memory_format=t.channels_last)
        with pytest.raises(RuntimeError, match="required rank 5 tensor to use channels_last_3d format"):
            t.empty(2, 3, 4, memory_format=t.channels_last_3d)
        with pytest.raises(TypeError):
            t.zeros(2).is_contiguous(memory_format=3)


def test_a_compiled_call_answers_for_its_own_strides() -> None:
    compiled = nt.compile(lambda x: x + 1 if x.is_contiguous(memory_format=nt.channels_last) else x - 1)
    rows, last = nt.zeros(2, 3, 4, 5), image(nt, 4) * 0
    for _ in range(2):
        assert compiled(rows).flatten()[0].item() == -1
        assert compiled(last).flatten()[0].item() == 1


def test_strides_are_a_plain_tuple() -> None:
    for m in (nt, torch):
        assert [type(m.ones(size).stride()) for size in ((), (2,), (2, 3))] == [tuple] * 3
