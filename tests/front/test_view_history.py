"""Writing tensors and views in place while gradients are recorded, beside PyTorch: values, gradients, messages."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import narthex as nt
import pytest
import torch
from both import close, over

VIEWS: list[Callable[[Any], Any]] = [
    lambda t: t.select(0, -1),
    lambda t: t[-2:],
    lambda t: t.t() if t.dim() <= 2 else t,
    lambda t: t.unsqueeze(0),
    lambda t: t.transpose(0, -1),
    lambda t: t[..., ::2],
    lambda t: t.reshape(-1) if t.is_contiguous() else t.narrow(-1, 0, 1),
]
WRITES: list[Callable[[Any, Any], Any]] = [
    lambda t, w: t.mul_(w),
    lambda t, w: t.mul_(0.5),
    lambda t, w: t.add_(w * 2, alpha=3),
    lambda t, w: t.copy_(w.sin()),
    lambda t, w: t.tanh_(),
    lambda t, w: t.zero_(),
    lambda t, w: t.fill_(0.25),
    lambda t, w: t.__setitem__(..., w),
    lambda t, w: t.mul_(t),
    lambda t, w: t.sub_(t.clone().exp()),
]


def draw_steps(seed: int) -> list[tuple[str, int, int]]:
    """What to do, to which tensor, which: views that fit, writes, reads."""
    draw = random.Random(seed)
    tensors, steps = [torch.zeros(3, 4)], []
    for _ in range(8):
        at = draw.randrange(len(tensors))
        if draw.random() < 0.5 and tensors[at].dim() > 0 and tensors[at].numel() > 2:
            steps.append(("view", at, draw.randrange(len(VIEWS))))
            tensors.append(VIEWS[steps[-1][2]](tensors[at]))
        elif draw.random() < 0.3:
            steps.append(("read", at, draw.randint(1, 3)))
        else:
            steps.append(("write", at, draw.randrange(len(WRITES))))
    return steps


def program(seed: int, constant: bool) -> Callable[[Any, Any], Any]:
    """Views and writes of a copy of x or of a constant; the sum of what was read on the way and at the end."""
    steps = draw_steps(seed)

    def run(x: Any, w: Any) -> Any:
        base = x.detach() * 0 if constant else x * 1
        tensors, total = [base], w * 0
        for what, at, which in steps:
            if what == "view":
                tensors.append(VIEWS[which](tensors[at]))
            elif what == "read":
                total = total + tensors[at].clone().sin().sum() * which
            else:
                WRITES[which](tensors[at], w)
        for t in tensors:
            total = total + t.cos().sum() + t.unsqueeze(0).unsqueeze(-1).expand(3, *[-1] * (t.dim() + 1)).sum()
        return total

    return run


def leaves(module: Any) -> tuple[Any, Any]:
    x = module.tensor([[(3 * i + 5 * j) % 7 / 7 - 0.4 for j in range(4)] for i in range(3)]).requires_grad_()
    return x, module.tensor(0.7).requires_grad_()


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("seed", range(60))
def test_random_writes(seed: int, constant: bool) -> None:
    """Value, gradient and second gradient."""
    run = program(seed, constant)
    mine, theirs = derivatives(nt, run), derivatives(torch, run)
    assert not isinstance(mine, str) or isinstance(theirs, str), mine
    for one, other in zip(mine, theirs) if not isinstance(theirs, str) else ():
        assert (one is None) == (other is None)
        if one is not None:
            close(one.detach(), other, 1e-4, 1e-5)


def derivatives(module: Any, run: Callable[[Any, Any], Any]) -> Any:
    """Value, first and second derivatives, or why there are none.

    PyTorch keeps more of what is overwritten later, and takes a view of a constant that has got a history for a leaf.
    """
    x, w = leaves(module)
    try:
        value = run(x, w)
        gx, gw = module.autograd.grad(value, (x, w), create_graph=True, allow_unused=True)
    except RuntimeError as error:
        if "modified by an inplace operation" not in str(error) and "a leaf Variable" not in str(error):
            raise
        return "refused"
    again = (gw * gw if gw.requires_grad else w * 0) + ((gx * gx).sum() if gx is not None and gx.requires_grad else 0)
    second = module.autograd.grad(again, (x, w), allow_unused=True) if again.requires_grad else (None, None)
    return value, gx, gw, *second


@pytest.mark.parametrize("mode", ["max-autotune", "reduce-overhead"])
@pytest.mark.parametrize("seed", range(0, 60, 5))
def test_random_writes_compiled(seed: int, mode: str) -> None:
    run = program(seed, False)
    (x, w), (p, q) = leaves(nt), leaves(torch)
    if derivatives(torch, run) == "refused":
        pytest.skip("the program overwrites what its gradient needs")
    run(p, q).backward()
    nt.compile(run, mode=mode)(x, w).backward()
    for mine, theirs in ((x.grad, p.grad), (w.grad, q.grad)):
        close(mine, theirs, 1e-4, 1e-5)


@pytest.mark.parametrize("mode", ["max-autotune", "reduce-overhead"])
def test_written_view_leaves_a_graph(mode: str) -> None:
    """A view and its base are results of one compiled graph and go on into another."""

    def run(x: Any, module: Any) -> Any:
        y = x * 2
        v = y[0:2]
        v.mul_(3)
        if module is nt:
            print(end="")
        return (v * y[1:]).sum()

    x = leaf(nt)
    nt.compile(run, mode=mode)(x, nt).backward()
    assert x.grad.tolist() == [72.0, 72.0, 24.0]


def same_error(run: Callable[[Any], Any]) -> None:
    """Both raise, with the same type and text; addresses aside."""
    texts = []
    for module in (nt, torch):
        with pytest.raises(Exception) as caught:
            run(module)
        texts.append((caught.type, re.sub(r"0x[0-9a-f]+", "", str(caught.value))))
    assert texts[0] == texts[1]


def leaf(module: Any) -> Any:
    return module.tensor([1.0, 2.0, 3.0]).requires_grad_()


def unrecorded(x: Any, module: Any) -> Any:
    with module.no_grad():
        return x[0:2]


ERRORS: dict[str, Callable[[Any], Any]] = {
    "leaf": lambda m: leaf(m).mul_(2),
    "view of a leaf": lambda m: leaf(m).view(3, 1)[0].mul_(2),
    "item of a leaf": lambda m: leaf(m).__setitem__(0, 1),
    "view without gradients": lambda m: unrecorded(leaf(m) * 1, m).mul_(2),
    "view without gradients of a constant": lambda m: unrecorded(m.zeros(3), m).mul_(leaf(m)[0:2]),
    "one of a split": lambda m: (leaf(m) * 1).split(2)[0].mul_(2),
    "one of a split by sizes": lambda m: (leaf(m) * 1).split([1, 2])[1].zero_(),
    "one of an unbind of a leaf": lambda m: leaf(m).unbind()[2].add_(1),
    "one of a chunk of a constant": lambda m: m.zeros(3).chunk(3)[1].mul_(leaf(m)[0:1]),
    "row of an iteration": lambda m: [row.mul_(2) for row in (leaf(m) * 1).view(3, 1)],
    "one of a split whose base is written": lambda m: (x := leaf(m) * 1, x.split(2), x.mul_(2))[1][0].grad_fn,
    "detach_ of a view": lambda m: (leaf(m) * 1)[0:2].detach_(),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    same_error(ERRORS[name])


def test_view_without_gradients_whose_base_is_written() -> None:
    def run(module: Any) -> Any:
        x = module.zeros(3)
        v = unrecorded(x, module)
        x.mul_(leaf(module))
        return v.grad_fn

    same_error(run)


@pytest.mark.parametrize("written", ["saved view", "saved result"])
def test_changed_after_it_was_saved(written: str) -> None:
    def run(module: Any) -> Any:
        y = leaf(module) * 1
        if written == "saved view":
            z = y[0:2] * y[0:2]
            y[0:1].mul_(2)
        else:
            z = y.exp()
            z[0:2].add_(1)
        z.sum().backward()

    for module in (nt, torch):
        with pytest.raises(RuntimeError, match="modified by an inplace operation.*is at version 1; expected version 0"):
            run(module)


def test_names() -> None:
    for module in (nt, torch):
        x = leaf(module)
        y = x.clone()
        v = y[0:2]
        v.mul_(2)
        assert y.grad_fn.name() == "torch::autograd::CopySlices" and v.grad_fn.name() == "AsStridedBackward0"
        assert v.grad_fn.next_functions == ((y.grad_fn, 0),)
        assert [n.name() if n else None for n, _ in y.grad_fn.next_functions] == ["CloneBackward0", None]
        assert v._is_view() and v._base is y and not y._is_view() and not v.is_leaf


def test_writing_without_gradients_leaves_history() -> None:
    for module in (nt, torch):
        x = leaf(module)
        y = x * 3
        v = y[0:2]
        with module.no_grad():
            v.zero_()
        v.mul_(2)
        y.sum().backward()
        assert x.grad.tolist() == [6.0, 6.0, 3.0] and y.tolist() == [0.0, 0.0, 9.0]


def test_detached_shares_versions() -> None:
    for module in (nt, torch):
        x = leaf(module)
        y = x.exp()
        d = y.detach()
        assert not d.requires_grad and not d._is_view()
        d.mul_(2)
        assert y._version == d._version == 1
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


def test_data_has_a_version_of_its_own() -> None:
    for module in (nt, torch):
        x = leaf(module)
        y = x * 1
        z = y * y
        y.data[0:2].add_(1)
        d = y.data
        assert (y._version, d._version, d.add_(1)._version, y.data._version) == (0, 0, 1, 0)
        z.sum().backward()
        assert x.grad.tolist() == [2 * v for v in y.tolist()] and y.data_ptr() == d.data_ptr()
        x.data = module.zeros(3)
        x.data.fill_(7.0)
        assert x.tolist() == [7.0] * 3 and x._version == 0 and x.requires_grad


def test_tensors_that_share_memory_through_data() -> None:
    x = nt.arange(6.0)
    with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor"):
        x.data[1:].add_(x[:-1])

    @nt.compile
    def write(a, b):
        a.add_(1)
        return a + b

    y = nt.zeros(3)
    assert write(y, y.data).tolist() == [2.0] * 3 and write(y, nt.zeros(3)).tolist() == [2.0] * 3


VIEWS_OF = {
    "a leaf": lambda m: unrecorded(leaf(m), m),
    "a result": lambda m: unrecorded(leaf(m) * 2, m),
    "a result that was written": lambda m: unrecorded((leaf(m) * 2).mul_(2), m),
    "a constant that became a leaf": lambda m: (x := m.zeros(3), unrecorded(x, m), x.requires_grad_())[1],
    "a constant that became a leaf, recorded": lambda m: (x := m.zeros(3), x[0:2], x.requires_grad_())[1],
    "a constant": lambda m: unrecorded(m.zeros(3), m),
    "integers": lambda m: unrecorded(m.zeros(3, dtype=m.int64), m),
    "a result, a leaf itself": lambda m: unrecorded(leaf(m) * 2, m).requires_grad_(),
}


@pytest.mark.parametrize("name", VIEWS_OF)
def test_view_that_was_not_recorded(name: str) -> None:
    seen = []
    for module in (nt, torch):
        v = VIEWS_OF[name](module)
        used = v * 2
        found = [v.requires_grad, v.is_leaf, v.grad_fn, used.requires_grad, used.is_leaf]
        if used.requires_grad:
            used.sum().backward()
            found += [v.grad is None or v.grad.tolist()]
            again = (v * 2).sum()
            found += [g if g is None else g.tolist() for g in module.autograd.grad(again, [v], allow_unused=True)]
        seen.append(found)
    assert seen[0] == seen[1]


def test_retained_gradient_of_a_written_view() -> None:
    for module in (nt, torch):
        x = leaf(module)
        y = x * 2
        v = y[0:2]
        v.retain_grad()
        v.mul_(3)
        (v * v).sum().backward()
        close_lists(v.grad.tolist(), [12.0, 24.0])
        close_lists(x.grad.tolist(), [72.0, 144.0, 0.0])


def close_lists(mine: list[float], theirs: list[float]) -> None:
    assert mine == pytest.approx(theirs)


def test_set_slices_in_a_loop_on_a_device() -> None:
    from narthex.compat import torch_npu  # noqa: F401  (adds npu:0)

    rows = [over(leaf(nt)) * (i + 1) for i in range(4)]
    expected = torch.stack(rows)
    x = nt.tensor([1.0, 2.0, 3.0]).to("npu:0").requires_grad_()
    out = nt.zeros(4, 3, device="npu:0")
    for i in range(4):
        out[i] = x * (i + 1)
    (out * out).sum().backward()
    close(out.detach().cpu(), expected)
    assert x.grad.tolist() == [60.0, 120.0, 180.0]


ROOTS: list[Callable[[Any, Any, Any], Any]] = [
    lambda m, x, v: v.backward(),
    lambda m, x, v: v.backward(m.ones(1)),
    lambda m, x, v: m.autograd.grad(v, x),
    lambda m, x, v: m.autograd.grad(v, x, allow_unused=True),
    lambda m, x, v: m.autograd.backward([(x * 2).sum(), v]),
]


@pytest.mark.parametrize("call", ROOTS)
def test_unrecorded_view_is_no_root(call: Callable[[Any, Any, Any], Any]) -> None:
    texts = []
    for m in (nt, torch):
        x = m.ones(3, requires_grad=True)
        with m.no_grad():
            v = x[:1]
        assert v.requires_grad and v.is_leaf
        with pytest.raises(RuntimeError, match="does not require grad and does not have a grad_fn$") as error:
            call(m, x, v)
        texts.append(str(error.value))
        assert x.grad is None
        (v * 2).sum().backward()  # may be used: its gradient goes nowhere
        assert x.grad is None
    assert texts[0] == texts[1]


def test_a_view_that_is_made_a_leaf_leaves_the_others_alone() -> None:
    facts = []
    for m in (nt, torch):
        x = m.arange(8.0).view(2, 4)
        before, leaf, part = x[:1], x[:, None], x[0]
        leaf.requires_grad = True
        after, of_leaf = x[1:], leaf[0]
        (leaf * before + part).sum().backward()
        all_of_them = (x, before, leaf, part, after, of_leaf, x[:, None])
        facts.append([(t.requires_grad, t.is_leaf, t.grad is None) for t in all_of_them] + [leaf.grad.tolist()])
    assert facts[0] == facts[1]
