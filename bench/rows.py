"""What is measured. A row is a function of the module `torch` (Narthex or PyTorch) that returns microseconds.

Every function runs in a process of its own with one thread. Calls are timed in batches and the fastest batch counts:
what disturbs a machine only ever adds time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


def per_call(f: Callable[[], Any], n: int, batches: int = 15) -> float:
    """Microseconds a call of f, the best of `batches` batches of n calls."""
    best = float("inf")
    for _ in range(batches):
        start = time.perf_counter_ns()
        for _ in range(n):
            f()
        best = min(best, (time.perf_counter_ns() - start) / n)
    return best / 1000


def loop_cost() -> float:
    """Microseconds that the timing loop and an empty call cost; subtracted from rows of less than a microsecond."""
    return per_call(lambda: None, 20000)


def small_add(torch: Any) -> float:
    x, y = torch.randn(4, 4), torch.randn(4, 4)
    return per_call(lambda: x + y, 20000) - loop_cost()


def small_add_grad(torch: Any) -> float:
    x, y = torch.randn(4, 4, requires_grad=True), torch.randn(4, 4)
    return per_call(lambda: x + y, 20000) - loop_cost()


def small_backward(torch: Any) -> float:
    x, y = torch.randn(4, 4, requires_grad=True), torch.randn(4, 4)
    return per_call(lambda: (x * y).sum().backward(), 3000)


def compiled_add(torch: Any) -> float:
    x, y = torch.randn(4, 4), torch.randn(4, 4)
    f = torch.compile(lambda x, y: x + y)
    f(x, y)
    return per_call(lambda: f(x, y), 5000) - loop_cost()


def compiled_add_replayed(torch: Any) -> float:
    x, y = torch.randn(4, 4), torch.randn(4, 4)
    f = torch.compile(lambda x, y: x + y, mode="reduce-overhead")
    f(x, y)
    return per_call(lambda: f(x, y), 5000) - loop_cost()


def compiled_sum_grad(torch: Any) -> float:
    x, y = torch.randn(4, 4, requires_grad=True), torch.randn(4, 4)
    f = torch.compile(lambda x, y: (x * y).sum())
    f(x, y)
    return per_call(lambda: f(x, y), 3000) - loop_cost()


def compile_time_add(torch: Any) -> float:
    """The first call less a later one."""
    x, y = torch.randn(4, 4), torch.randn(4, 4)
    f = torch.compile(lambda x, y: x + y)
    start = time.perf_counter_ns()
    f(x, y)
    first = (time.perf_counter_ns() - start) / 1000
    return first - per_call(lambda: f(x, y), 100, 3)


def new_shape(torch: Any) -> float:
    """The first call with another shape less a later one."""
    f = torch.compile(lambda x, y: x + y)
    f(torch.randn(4, 4), torch.randn(4, 4))
    x, y = torch.randn(5, 4), torch.randn(5, 4)
    start = time.perf_counter_ns()
    f(x, y)
    first = (time.perf_counter_ns() - start) / 1000
    return first - per_call(lambda: f(x, y), 100, 3)


def replay_operator(torch: Any, device: str = "cpu") -> float:
    """One operator of a replayed chain of additions on 16 numbers: (chain of 1001 - chain of 1) / 1000."""
    x, y = torch.randn(4, 4).to(device), torch.randn(4, 4).to(device)

    def chain(n: int) -> float:
        def f(x: Any, y: Any) -> Any:
            for _ in range(n):
                x = torch.add(x, y)
            return x

        g = torch.compile(f, mode="reduce-overhead")
        g(x, y)

        def call() -> None:
            g(x, y)
            if device != "cpu":
                torch.npu.synchronize()

        return per_call(call, 50)

    return (chain(1001) - chain(1)) / 1000


def replay_operator_npu(torch: Any) -> float:
    import torch_npu  # noqa: F401  (adds npu:0)

    return replay_operator(torch, "npu:0")


@dataclass(frozen=True)
class Row:
    """name; what it measures; the most that it may take in microseconds; whether PyTorch has a counterpart."""

    name: str
    function: Callable[[Any], float]
    budget: float
    counterpart: bool = True
    rounds: int = 3


ROWS = [
    Row("x + y on 4x4", small_add, 0.08),
    Row("x + y on 4x4, requires_grad", small_add_grad, 0.12),
    Row("(x * y).sum().backward() on 4x4", small_backward, 0.8),
    Row("compiled call of x + y", compiled_add, 0.2),
    Row("compiled call of x + y, reduce-overhead", compiled_add_replayed, 0.2),
    Row("compiled call of (x * y).sum(), grad, forward", compiled_sum_grad, 0.5),
    Row("compile time of x + y", compile_time_add, 1000, rounds=1),
    Row("compile time of a new shape", new_shape, 1000, rounds=1),
    Row("replay, an operator, cpu", replay_operator, 0.06, counterpart=False),
    Row("replay, an operator, npu:0", replay_operator_npu, 0.15, counterpart=False),
]
