"""f as PyTorch gives it to the backend "narthex": captured once, then compiled and run anew at every call."""

from __future__ import annotations

from typing import Any

import torch
from narthex import bridge
from narthex.compat import torch_npu  # noqa: F401  (the runner waits for npu:0 between runs)


def f(x: Any, w: Any, b: Any) -> Any:
    return (x @ w.t() * b + b).sum()


def inputs() -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(*shape, requires_grad=True) for shape in ((3, 4), (5, 4), (5,))]


captured: list[tuple[Any, Any]] = []


def capture() -> tuple[Any, Any]:
    def keep(graph: Any, example: Any) -> Any:
        captured.append((graph, example))
        return graph.forward

    if not captured:
        torch.compile(f, backend=keep)(*inputs())
    return captured[0]


def inside_pytorch() -> list[Any]:
    graph, example = capture()
    x, w, b = inputs()
    names = {"L_x_": x, "L_w_": w, "L_b_": b}
    order = [names[node.target] for node in graph.graph.nodes if node.op == "placeholder"]
    (loss,) = bridge.backend(graph, example)(*order)
    loss.backward()
    return [tensor.tolist() for tensor in (loss, x.grad, w.grad, b.grad)]


SCENARIOS = {"bridge, inside PyTorch": inside_pytorch}
