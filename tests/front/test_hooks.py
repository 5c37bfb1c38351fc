"""Hooks on tensors, beside PyTorch."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import narthex as nt
import pytest
import torch


def run(module: Any) -> list[Any]:
    seen: list[Any] = []
    x = module.tensor([1.0, 2.0], requires_grad=True)
    y = x * 3
    y.register_hook(lambda g: seen.append(("y", g.tolist())))
    y.register_hook(lambda g: g * 2)
    removed = y.register_hook(lambda g: g * 100)
    removed.remove()
    removed.remove()
    x.register_hook(lambda g: seen.append(("x", g.tolist())))
    x.register_post_accumulate_grad_hook(lambda t: seen.append(("accumulated", t.grad.tolist())))
    y.retain_grad()
    (y * y).sum().backward()
    seen.append((x.grad.tolist(), y.grad.tolist()))
    with x.register_hook(lambda g: g * 0):
        (x * 5).sum().backward()
    (x * 7).sum().backward()
    seen.append(x.grad.tolist())
    z = x * 2
    z.register_hook(lambda g: g + 1)
    seen.append([g.tolist() for g in module.autograd.grad(z.sum(), (z, x))])
    z = x * 2
    z.register_hook(lambda g: seen.append(("before", g.tolist())))
    z.mul_(4)
    z.sum().backward()
    return seen


def test_order_and_numbers() -> None:
    assert run(nt) == run(torch)


@pytest.mark.parametrize("wrong", ["type", "size", "dtype", "constant", "leaf", "raise"])
def test_errors(wrong: str) -> None:
    texts = []
    for module in (nt, torch):
        x = module.tensor([1.0, 2.0], requires_grad=True)
        y = x * 3
        with pytest.raises(Exception) as caught:
            if wrong == "constant":
                y.detach().register_hook(print)
            elif wrong == "leaf":
                y.register_post_accumulate_grad_hook(print)
            else:
                hooks = {"type": lambda g: 3, "size": lambda g: g[0], "raise": lambda g: {}[0]}
                y.register_hook(hooks.get(wrong, lambda g: g.double()))
                y.sum().backward()
        texts.append((caught.type, str(caught.value)))
        assert x.grad is None
    assert texts[0] == texts[1]


def listed(values: Any) -> list[Any]:
    return [None if g is None else g.tolist() for g in values]


def nodes(module: Any) -> list[Any]:
    """Hooks at nodes: their order among those of tensors and leaves, what they are given, what goes on instead."""
    seen: list[Any] = []
    x, w = (module.tensor(v, requires_grad=True) for v in ([1.0, 2.0], [3.0, 4.0]))
    y = x * w
    y.grad_fn.register_hook(lambda gi, go: seen.append(("after", type(gi), listed(gi), listed(go))))
    y.grad_fn.register_prehook(lambda go: seen.append(("before", type(go), listed(go))))
    y.register_hook(lambda g: seen.append("tensor"))
    y.grad_fn.register_hook(lambda gi, go: seen.append("after, second"))
    leaf = y.grad_fn.next_functions[0][0]
    leaf.register_hook(lambda gi, go: seen.append(("leaf after", gi, listed(go), x.grad.tolist())))
    handle = leaf.register_prehook(lambda go: seen.append(("leaf before", listed(go), x.grad)))
    x.register_post_accumulate_grad_hook(lambda p: seen.append("accumulated"))
    x.register_hook(lambda g: seen.append("leaf tensor"))
    y.sum().backward(retain_graph=True)
    handle.remove()
    for inputs in (x, y, (y, x)):
        seen.append(listed(module.autograd.grad(y.sum(), inputs, retain_graph=True)))
    y = x * 2
    y.grad_fn.register_prehook(lambda go: (go[0] * 3,))
    y.grad_fn.register_prehook(lambda go: seen.append(listed(go)))
    y.grad_fn.register_hook(lambda gi, go: tuple(None if g is None else g * 5 for g in gi))
    y.grad_fn.register_hook(lambda gi, go: seen.append((listed(gi), listed(go))))
    z = y + 1
    del y  # hooks stay with the node
    with z.grad_fn.register_hook(lambda gi, go: seen.append("never")):
        pass
    seen.append(listed(module.autograd.grad(z.sum(), x)))
    (x * 2).grad_fn.register_hook(lambda gi, go: seen.append("never"))
    parts = module.ones(4, requires_grad=True).unbind(0)
    parts[1].grad_fn.register_prehook(lambda go: seen.append(listed(go)))
    parts[1].backward()
    y = x**2
    y.grad_fn.register_hook(lambda gi, go: (gi[0] * x,))
    (g,) = module.autograd.grad(y.sum(), x, create_graph=True)
    seen.append(listed([g, *module.autograd.grad(g.sum(), x)]))
    y = x * w
    once = [y.grad_fn.register_hook(lambda gi, go: (seen.append("once"), once[0].remove())[2:] or None)]
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    return seen


def test_hooks_of_nodes() -> None:
    assert nodes(nt) == nodes(torch)


class Short:
    tensor: Any = None

    def __call__(self, *given: Any) -> Any:
        return given[0][:0]


AFTER: list[Any] = [
    lambda gi, go: (gi[0] * 2, gi[1] * 3), lambda gi, go: (gi[0], None), lambda gi, go: [gi[0], gi[1]],
    lambda gi, go: gi[0], lambda gi, go: (gi[0],), lambda gi, go: (gi[0], gi[1][:1]),
    lambda gi, go: (gi[0], gi[1].double()),
    lambda gi, go: (gi[0], 1.0), lambda gi, go: 3, lambda gi, go: {}[0], Short(), 3,
]  # fmt: skip
BEFORE: list[Any] = [
    lambda go: (go[0] * 2,), lambda go: (None,), lambda go: [go[0]], lambda go: go[0], lambda go: (go[0], go[0]),
    lambda go: (go[0][:1],), lambda go: (1,), lambda go: 0, Short(), None,
]  # fmt: skip


@pytest.mark.parametrize("kind, number", [("register_hook", k) for k in range(len(AFTER))]
                         + [("register_prehook", k) for k in range(len(BEFORE))])  # fmt: skip
def test_what_hooks_of_nodes_return(kind: str, number: int) -> None:
    found: list[Any] = []
    for module in (nt, torch):
        x, w = (module.tensor(v, requires_grad=True) for v in ([1.0, 2.0], [3.0, 4.0]))
        y = x * w
        getattr(y.grad_fn, kind)((AFTER if kind == "register_hook" else BEFORE)[number])
        try:
            y.sum().backward()
            found.append(listed([x.grad, w.grad]))
        except Exception as error:
            found.append((type(error), str(error)))
    assert found[0] == found[1]


def test_a_gradient_that_is_none_stays() -> None:
    texts = []
    for module in (nt, torch):
        y = module.ones(2, requires_grad=True) * module.ones(2)
        y.grad_fn.register_hook(lambda gi, go: (gi[0], go[0]))
        with pytest.raises(RuntimeError) as caught:
            y.sum().backward()
        texts.append(str(caught.value))
    assert texts[0] == texts[1]


@pytest.mark.parametrize("hook", [lambda p: p.grad, lambda p: p[:1], lambda p: 0])
def test_hooks_behind_accumulation_return_none(hook: Any) -> None:
    texts = []
    for module in (nt, torch):
        x = module.ones(2, requires_grad=True)
        x.register_post_accumulate_grad_hook(hook)
        with pytest.raises((RuntimeError, TypeError)) as caught:
            x.sum().backward()
        texts.append((caught.type, str(caught.value)))
    assert texts[0] == texts[1]


def test_a_hook_of_a_node_is_collected() -> None:
    import gc
    import weakref

    y = nt.ones(2, requires_grad=True) * 2
    holder = Short()
    holder.tensor = y  # a cycle: tensor, node, hook, tensor
    y.grad_fn.register_hook(holder)
    gone = weakref.ref(holder)
    del y, holder
    gc.collect()
    assert gone() is None


def test_a_hook_behind_accumulation_may_return_its_leaf() -> None:
    for module in (nt, torch):
        x = module.ones(2, requires_grad=True)
        x.register_post_accumulate_grad_hook(lambda p: p)
        x.sum().backward()
        assert x.grad.tolist() == [1, 1]


def test_what_is_kept_at_nodes():
    def of(m):
        x = m.ones(2, 3, requires_grad=True)
        y = x * 2
        y.grad_fn.metadata["place"] = 3
        z = y.exp()
        later, node = z.sum().grad_fn, z.grad_fn.next_functions[0][0]
        leaf = node.next_functions[0][0]
        assert later._sequence_nr() > z.grad_fn._sequence_nr() > node._sequence_nr()
        z.sum().backward()  # what is kept there is no hook
        assert node.metadata is y.grad_fn.metadata and leaf.requires_grad is node.requires_grad is True
        return node.metadata, later.metadata, leaf._sequence_nr(), leaf.metadata, x.grad.tolist()

    assert of(nt)[:4] == of(torch)[:4] == ({"place": 3}, {}, 2**64 - 1, {})

    class Kept:
        pass

    x, kept = nt.ones(2, requires_grad=True), Kept()
    y, gone = x * 2, weakref.ref(kept)
    y.grad_fn.metadata.update(kept=kept, self=y)
    del kept
    assert gone() is not None
    del y
    gc.collect()
    assert gone() is None
