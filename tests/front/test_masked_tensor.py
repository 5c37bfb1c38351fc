"""MaskedTensor beside PyTorch: values, masks, gradients, texts and errors."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import narthex as nt
import narthex.masked
import pytest
import torch
import torch.masked
from both import over

DATA = torch.tensor([[0.5, 1.5, -2.0], [3.0, 0.25, 5.0]])
MASK = torch.tensor([[True, False, True], [False, False, True]])


@pytest.fixture(autouse=True)
def quiet() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def made(lib: Any, data: torch.Tensor = DATA, mask: torch.Tensor = MASK, **keywords: Any) -> Any:
    give = over if lib is nt else torch.clone
    return lib.masked.masked_tensor(give(data), give(mask), **keywords)


def parts(x: Any) -> tuple:
    """(mask, what is there) of a masked tensor, as lists; of a plain one its elements."""
    if type(x).__name__ != "MaskedTensor":
        return (None, x.detach().tolist())
    data, mask = x.get_data().detach(), x.get_mask()
    zeros = data * 0 if not data.is_floating_point() else data.nan_to_num() * 0
    kept = (mask.logical_not().to(data.dtype) * 0 + zeros) if data.dtype.is_floating_point else zeros
    return (mask.tolist(), data.where(mask, kept.to(data.dtype)).tolist(), str(data.dtype), tuple(x.shape))


def same(mine: Any, theirs: Any) -> None:
    a, b = parts(mine), parts(theirs)
    assert a[0] == b[0] and a[2:] == b[2:], (mine, theirs)
    torch.testing.assert_close(torch.tensor(a[1]), torch.tensor(b[1]), rtol=1e-5, atol=1e-6, equal_nan=True)


CALLS = [
    lambda x, y, d, lib: x + y, lambda x, y, d, lib: x - 2, lambda x, y, d, lib: x - d, lambda x, y, d, lib: x * d,
    lambda x, y, d, lib: d * x, lambda x, y, d, lib: lib.div(x, y), lambda x, y, d, lib: 1 / x, lambda x, y, d,
    lib: x**2,
    lambda x, y, d, lib: -x, lambda x, y, d, lib: abs(x), lambda x, y, d, lib: x.sin(), lambda x, y, d,
    lib: lib.exp(x).log(),
    lambda x, y, d, lib: x.clamp(0, 2), lambda x, y, d, lib: x.sigmoid(), lambda x, y, d, lib: x == y, lambda x, y, d,
    lib: x < 1,
    lambda x, y, d, lib: lib.maximum(x, y), lambda x, y, d, lib: x.sum(), lambda x, y, d, lib: x.sum(0),
    lambda x, y, d, lib: x.sum(1, keepdim=True), lambda x, y, d, lib: x.mean(1), lambda x, y, d, lib: x.mean(),
    lambda x, y, d, lib: x.prod(0), lambda x, y, d, lib: x.amax(1), lambda x, y, d, lib: x.amin(0), lambda x, y, d,
    lib: x.amin(),
    lambda x, y, d, lib: x.argmax(1), lambda x, y, d, lib: x.argmin(0), lambda x, y, d, lib: x.all(), lambda x, y, d,
    lib: x.std(),
    lambda x, y, d, lib: x.var(), lambda x, y, d, lib: x[0], lambda x, y, d, lib: x.t(), lambda x, y, d,
    lib: x.view(3, 2),
    lambda x, y, d, lib: x.reshape(-1), lambda x, y, d, lib: x.clone(), lambda x, y, d, lib: x.detach(),
    lambda x, y, d, lib: lib.where(d > 1, x, y), lambda x, y, d, lib: lib.softmax(x, 1), lambda x, y, d, lib: x.add_(1),
    lambda x, y, d, lib: x.sin_(), lambda x, y, d, lib: x.to(lib.float64), lambda x, y, d, lib: lib.stack([x, y]),
    lambda x, y, d, lib: lib.cat([x, y]), lambda x, y, d, lib: x.expand(2, 2, 3), lambda x, y, d, lib: x.unsqueeze(0),
    lambda x, y, d, lib: x.transpose(0, 1), lambda x, y, d, lib: lib.ones_like(x), lambda x, y, d, lib: x.data,
    lambda x, y, d, lib: x.to_tensor(-1), lambda x, y, d, lib: x.get_mask(),
]  # fmt: skip


@pytest.mark.parametrize("k", range(len(CALLS)))
def test_calls(k: int) -> None:
    mine, theirs = (
        CALLS[k](made(lib), made(lib, DATA + 1), over(DATA) if lib is nt else DATA.clone(), lib) for lib in (nt, torch)
    )
    same(mine, theirs)


@pytest.mark.parametrize("k", [0, 1, 3, 5, 7, 10, 11, 17, 18, 20, 22, 23, 32, 38])
def test_gradients(k: int) -> None:
    found = []
    for lib in (nt, torch):
        x, y = made(lib, DATA.abs() + 0.1, requires_grad=True), made(lib, DATA + 1, requires_grad=True)
        CALLS[k](x, y, over(DATA) if lib is nt else DATA.clone(), lib).sum().backward()
        found.append((x, y))
    for a, b in zip(*found, strict=True):
        assert (a.grad is None) == (b.grad is None)
        if a.grad is not None:
            same(a.grad, b.grad)


def test_what_is_masked_gives_no_gradient() -> None:
    """Where the derivative is infinite, too: that is what such tensors are for. PyTorch gives a MaskedTensor."""
    x, w = nt.tensor([0.0, 4.0, 9.0], requires_grad=True), nt.tensor([nt.inf, 1.0, 2.0], requires_grad=True)
    m = nt.tensor([False, True, True])
    (nt.masked.as_masked_tensor(x, m).sqrt() * w).sum().backward()
    assert x.grad.tolist() == [0, 0.25, pytest.approx(1 / 3)] and w.grad.tolist() == [0, 2, 3]
    theirs = torch.tensor([0.0, 4.0, 9.0], requires_grad=True)
    torch.masked.as_masked_tensor(theirs, torch.tensor([False, True, True])).sqrt().sum().backward()
    assert theirs.grad.to_tensor(0).tolist() == [0, 0.25, pytest.approx(1 / 6)]
    x.grad = None
    nt.masked.as_masked_tensor(x, m).get_data().sqrt().sum().backward()
    assert not x.grad.isinf().any()


@pytest.mark.parametrize(
    "data", [DATA, DATA.long(), DATA > 1, DATA[0], DATA[0, 0], DATA[0, 1], DATA.view(1, 2, 3)], ids=str
)
def test_texts(data: torch.Tensor) -> None:
    mask = MASK if data.dim() == 2 else MASK[0] if data.dim() == 1 else MASK.view(1, 2, 3)
    mask = MASK[0, 0 if data.dim() == 0 and data == 0.5 else 1] if data.dim() == 0 else mask
    assert repr(made(nt, data, mask)) == repr(made(torch, data, mask))


def test_errors() -> None:
    for call in (
        lambda lib, x, d, m: x + lib.masked.masked_tensor(d, ~m),
        lambda lib, x, d, m: lib.masked.masked_tensor(d, m.float()),
        lambda lib, x, d, m: lib.masked.masked_tensor(d, m[0]),
        lambda lib, x, d, m: lib.masked.masked_tensor(d, m[:, :2]),
        lambda lib, x, d, m: lib.masked.masked_tensor([1], m),
        lambda lib, x, d, m: lib.masked.masked_tensor(x, m),
        lambda lib, x, d, m: x.matmul(d.t()),
        lambda lib, x, d, m: x.relu(),
        lambda lib, x, d, m: x.nonzero(),
        lambda lib, x, d, m: x.tolist(),
        lambda lib, x, d, m: x.numpy(),
        lambda lib, x, d, m: x.item(),
    ):
        errors = []
        for lib in (nt, torch):
            d, m = (over(DATA), over(MASK)) if lib is nt else (DATA.clone(), MASK.clone())
            with pytest.raises(Exception) as caught:
                call(lib, made(lib), d, m)
            errors.append(caught.value)
        assert type(errors[0]) is type(errors[1]), errors
        if not isinstance(errors[1], TypeError) or "Multiple dispatch" not in str(errors[1]):
            assert str(errors[0]) == str(errors[1])


def test_leaves_and_copies() -> None:
    x = made(nt, requires_grad=True)
    assert nt.masked.is_masked_tensor(x) and x.is_leaf and x.requires_grad and x.shape == (2, 3) and x.size(0) == 2
    assert isinstance(x, nt.Tensor) and x.dtype is nt.float32 and len(x) == 2
    twin = copy.deepcopy(x)
    assert repr(twin) == repr(x) and twin.requires_grad and not (twin + 0).is_leaf
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        x.add_(1)
    data, mask = over(DATA), over(MASK)
    kept = nt.masked.masked_tensor(data, mask)
    data.zero_()
    mask.fill_(True)
    assert repr(kept) == repr(made(nt))
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        (x * 2).backward()
