"""In-place forms of views (t_(), squeeze_() ...), beside PyTorch: sizes, versions, gradients, messages, compiled."""

from __future__ import annotations

import random
from typing import Any

import narthex as nt
import pytest
import torch
from both import close

CALLS: list[tuple[str, tuple, dict]] = [
    ("t_", (), {}), ("transpose_", (0, -1), {}), ("swapaxes_", (0, 1), {}), ("swapdims_", (1, 0), {}),
    ("squeeze_", (), {}), ("squeeze_", (0,), {}), ("squeeze_", (), {"dim": -1}), ("squeeze_", ((0, 1),), {}),
    ("unsqueeze_", (0,), {}), ("unsqueeze_", (), {"dim": -1}), ("as_strided_", ((2, 2), (1, 2)), {}),
    ("as_strided_", ((3,), (1,), 1), {}), ("transpose_", (0, 9), {}), ("unsqueeze_", (7,), {}), ("squeeze_", (9,), {}),
    ("as_strided_", ((9, 9), (9, 1)), {}), ("t_", (1,), {}), ("transpose_", ("a", 1), {}),
    ("as_strided_", ((2,), (1, 1)), {}),
]  # fmt: skip
SIZES = [(2, 3), (1, 3), (4, 1), (5,), (1,), (), (2, 1, 3), (1, 2, 1, 3), (1, 1, 2, 1, 1, 3, 1)]


def state(t: Any) -> tuple:
    return tuple(t.shape), t.stride(), t.storage_offset(), t._version, t.requires_grad, t.is_leaf


@pytest.mark.parametrize("call", CALLS, ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_the_tensor_itself_changes(call: tuple, size: tuple) -> None:
    name, args, keywords = call
    n = 1
    for k in size:
        n *= k
    made: list[Any] = []
    for lib in (nt, torch):
        x = lib.arange(float(n)).view(size).clone()
        try:
            assert getattr(x, name)(*args, **keywords) is x
            made.append(x)
        except Exception as error:
            assert state(x)[0] == size and x._version == 0
            made.append(error)
    mine, theirs = made
    if isinstance(theirs, Exception):
        assert isinstance(mine, type(theirs)), (mine, theirs)
        # The dimension errors of Narthex begin with the operator.
        if isinstance(theirs, IndexError):
            assert str(theirs) in str(mine)
        return
    assert not isinstance(mine, Exception), mine
    assert state(mine) == state(theirs)
    close(mine, theirs)


STEPS = [
    lambda t: t.t_(), lambda t: t.transpose_(0, -1), lambda t: t.unsqueeze_(0), lambda t: t.squeeze_(),
    lambda t: t.mul_(2), lambda t: t.sin_(), lambda t: t.__setitem__(0, 0.5),
]  # fmt: skip
VIEWS = [lambda t: t.view(-1) if t.is_contiguous() else t.flatten(), lambda t: t[:1], lambda t: t.transpose(0, -1),
         lambda t: t.unsqueeze(-1), lambda t: t.detach()]  # fmt: skip


def run(lib: Any, seed: int) -> list:
    """A random program of views, in-place views and writes; what it gives, or the kind of its error."""
    draw = random.Random(seed)
    leaf = (lib.arange(12.0).view(3, 4) / 7 + 0.1).requires_grad_()
    tensors = [leaf * 1]
    found: list[Any] = []
    total = leaf.sum() * 0
    for _ in range(7):
        at = draw.choice(tensors)
        kind = draw.random()
        if kind < 0.3:
            tensors.append(draw.choice(VIEWS)(at))
            continue
        step = draw.choice(STEPS)
        try:
            step(at)
        except (RuntimeError, IndexError) as error:
            found.append(type(error))
            return found
        if kind > 0.8:
            total = total + (at * lib.arange(float(at.numel())).view(at.shape)).sum()
    for t in tensors:
        total = total + (t * lib.arange(float(t.numel())).view(t.shape)).sum()
        found.append((tuple(t.shape), t.stride(), t.storage_offset(), t.requires_grad))
    try:
        (grad,) = lib.autograd.grad(total, leaf)
    except RuntimeError as error:
        return [*found, type(error)]
    return [*found, total.detach(), grad]


@pytest.mark.parametrize("seed", range(300))
def test_random_programs(seed: int) -> None:
    mine, theirs = run(nt, seed), run(torch, seed)
    assert len(mine) == len(theirs), (mine, theirs)
    for a, b in zip(mine, theirs):
        if isinstance(b, torch.Tensor):
            close(a, b, 1e-4, 1e-4)
        else:
            assert a == b


def test_leaves_refuse_and_no_grad_lets_them() -> None:
    for lib in (nt, torch):
        leaf = lib.ones(2, 3, requires_grad=True)
        with pytest.raises(
            RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"
        ):
            leaf.t_()
        with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad is being used"):
            leaf.view(-1).unsqueeze_(0)
        with lib.no_grad():
            leaf.t_()
        assert leaf.is_leaf and leaf.requires_grad and tuple(leaf.shape) == (3, 2)
        (leaf * lib.arange(6.0).view(3, 2)).sum().backward()
        assert leaf.grad.tolist() == [[0, 1], [2, 3], [4, 5]]


def test_a_saved_tensor_was_changed() -> None:
    for lib in (nt, torch):
        y = lib.ones(2, 3, requires_grad=True).exp()
        y.t_()
        with pytest.raises(RuntimeError, match="has been modified by an inplace operation"):
            y.sum().backward()


def test_history_without_gradients_is_refused() -> None:
    """PyTorch goes on, and its backward fails, or is wrong where both sizes are one."""
    y = nt.ones(2, 2, requires_grad=True).exp()
    with nt.no_grad(), pytest.raises(NotImplementedError, match="while gradients are off"):
        y.t_()


def test_a_view_outside_of_its_base_has_no_gradient() -> None:
    base = nt.zeros(10)
    view = base[5:]
    base.as_strided_((2,), (1,))
    with pytest.raises(NotImplementedError, match="outside of what its base shows"):
        view.mul_(nt.ones(5, requires_grad=True))


def test_a_retained_gradient_has_the_size_that_the_tensor_has() -> None:
    """PyTorch keeps that of the tensor as it was."""
    grads = []
    for lib in (nt, torch):
        leaf = lib.ones(2, 3, requires_grad=True)
        y = leaf * 2
        y.retain_grad()
        y.t_()
        (y * lib.arange(6.0).view(3, 2)).sum().backward()
        grads.append((tuple(y.grad.shape), y.grad.tolist(), leaf.grad.tolist()))
    assert grads[0] == ((3, 2), [[0, 1], [2, 3], [4, 5]], [[0, 4, 8], [2, 6, 10]])
    assert grads[1][2] == grads[0][2]


def test_compiled() -> None:
    def work(lib: Any, x: Any, w: Any) -> Any:
        y = x * 2
        y.t_()
        y = y + w
        z = (y * y).unsqueeze_(0)
        z.squeeze_().transpose_(0, 1)
        return z.sum(0), x.as_strided_((2, 2), (1, 2))

    outs = []
    for lib, call in (
        (torch, work),
        (nt, work),
        (nt, nt.compile(work)),
        (nt, nt.compile(work, mode="reduce-overhead")),
    ):
        for _ in range(3):
            x, w = lib.arange(6.0).view(2, 3).clone(), lib.ones(3, 2, requires_grad=True)
            a, b = call(lib, x, w)
            a.sum().backward()
            outs.append((a.tolist(), b.tolist(), b is x, tuple(x.shape), w.grad.tolist()))
    assert all(one == outs[0] for one in outs)


def test_a_compiled_function_sees_a_parameter_that_changed() -> None:
    linear = nt.nn.Linear(3, 3, bias=False)
    call = nt.compile(lambda x: linear(x))
    x = nt.randn(2, 3)
    with nt.no_grad():
        for _ in range(3):
            close(call(x), torch.from_dlpack(x @ linear.weight.detach().t()).clone())
            linear.weight.t_()
            linear.weight.unsqueeze_(0).squeeze_(0)


def test_make_fx_refuses() -> None:
    from narthex.fx.experimental.proxy_tensor import make_fx

    with pytest.raises(NotImplementedError, match="a graph that is being made"):
        make_fx(lambda x: (x * 1).t_())(nt.ones(2, 3))


def test_modes_hear_of_it() -> None:
    from narthex.overrides import TorchFunctionMode

    heard = []

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            heard.append(func)
            return func(*args, **(kwargs or {}))

    with Mode():
        nt.ones(2, 3).transpose_(0, 1)
    assert nt.Tensor.transpose_ in heard
    assert nt.as_strided_(nt.arange(4.0), (2,), (2,)).tolist() == [0, 2]
