"""x[...] and x[...] = y against PyTorch: views, messages, gradients, compiled."""

from __future__ import annotations

from typing import Any

import narthex as nt
import pytest
import torch

KEYS: list[Any] = [
    0, -1, (0, 1), (slice(None), 1), (Ellipsis, 2), (slice(1, 3), slice(None, None, 2)), None, (None, 0),
    (slice(None), None, 2), slice(1, None), Ellipsis, (0, 1, 2), (slice(None), -1, slice(None)), (Ellipsis, None),
    slice(-3, -1), slice(5, 9), (), (slice(0, 0), 1),
]  # fmt: skip


def pair(*size: int) -> tuple[Any, torch.Tensor]:
    theirs = torch.randn(size, generator=torch.Generator().manual_seed(0))
    return nt.from_dlpack(theirs.clone()), theirs


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_read(key: Any) -> None:
    ours, theirs = pair(4, 5, 6)
    mine, other = ours[key], theirs[key]
    assert mine.stride() == other.stride() and mine.storage_offset() == other.storage_offset()
    assert mine is not ours
    assert torch.equal(torch.from_dlpack(mine), other)


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_write(key: Any) -> None:
    ours, theirs = pair(4, 5, 6)
    ours[key], theirs[key] = 3, 3
    assert torch.equal(torch.from_dlpack(ours), theirs)
    ours[key], theirs[key] = ours[key] * 2, theirs[key] * 2
    assert torch.equal(torch.from_dlpack(ours), theirs)


@pytest.mark.parametrize("key", [5, (0, 9), (0, 1, 2, 3), (slice(None), 7)], ids=str)
def test_out_of_bounds(key: Any) -> None:
    ours, theirs = pair(4, 5, 6)
    with pytest.raises(IndexError) as expected:
        theirs[key]
    with pytest.raises(IndexError) as caught:
        ours[key]
    assert str(caught.value) == str(expected.value)


def test_what_cannot_be_indexed() -> None:
    with pytest.raises(IndexError, match="invalid index of a 0-dim tensor"):
        nt.tensor(1.0)[0]
    with pytest.raises(ValueError, match="step must be greater than zero"):
        nt.tensor([1.0])[::-1]
    with pytest.raises(NotImplementedError, match="index of type list"):
        nt.tensor([1.0])[[0]]
    with pytest.raises(TypeError, match="can't assign a str"):
        nt.tensor([1.0])[0] = "x"


def test_gradient() -> None:
    ours, theirs = pair(4, 5)
    ours.requires_grad_()
    theirs.requires_grad_()
    for x in (ours, theirs):
        ((x[1:3, 2] * 2).sum() + (x[-1] * x[0]).sum() + x[:, None, 1].sum()).backward()
    assert torch.equal(torch.from_dlpack(ours.grad), theirs.grad)


def last_and_first(x: Any) -> Any:
    y = x[:, -1, :]
    z = x[1] * 2
    z[0] = 1
    z[:, 1:3] = y[0, 0:2] * 2
    return y.sum() + z.sum()


@pytest.mark.parametrize("mode", ["max-autotune", "reduce-overhead"])
def test_compiled(mode: str) -> None:
    ours, theirs = pair(4, 5, 6)
    compiled = nt.compile(last_and_first, mode=mode, fullgraph=True)
    torch.testing.assert_close(torch.from_dlpack(compiled(ours)), last_and_first(theirs))


def test_from_the_start() -> None:
    """A 0-dim tensor of integers is an index."""
    ours, theirs = pair(4, 5)
    assert torch.equal(torch.from_dlpack(ours[nt.tensor(2)]), theirs[torch.tensor(2)])
