"""Hooks on tensors, beside PyTorch."""

from __future__ import annotations

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


@pytest.mark.parametrize("wrong", ["type", "size", "constant", "leaf", "raise"])
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
                y.register_hook(hooks[wrong])
                y.sum().backward()
        texts.append((caught.type, str(caught.value)))
        assert x.grad is None
    assert texts[0] == texts[1]
