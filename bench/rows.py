"""What is measured. A row is a function of the module `torch` (Narthex or PyTorch) that returns microseconds.

Every function runs in a process of its own with one thread, unless it sets another number. Calls are timed in batches
and the fastest batch counts: what disturbs a machine only ever adds time. Batches are short, a fraction of a
millisecond where a call is, so that some fall between the disturbances.
"""

from __future__ import annotations

import functools
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from bench import networks


def per_call(
    f: Callable[[], Any], n: int, batches: int = 300, clock: Callable[[], int] = time.perf_counter_ns
) -> float:
    """Microseconds a call of f, the best of `batches` batches of n calls."""
    best = float("inf")
    for _ in range(batches):
        start = clock()
        for _ in range(n):
            f()
        best = min(best, (clock() - start) / n)
    return best / 1000


def loop_cost() -> float:
    """Microseconds that the timing loop and an empty call cost; subtracted from rows of less than a microsecond."""
    return per_call(lambda: None, 1000)


def small_add(torch: Any) -> float:
    x, y = torch.randn(4, 4), torch.randn(4, 4)
    return per_call(lambda: x + y, 1000) - loop_cost()


def small_add_grad(torch: Any) -> float:
    x, y = torch.randn(4, 4, requires_grad=True), torch.randn(4, 4)
    return per_call(lambda: x + y, 1000) - loop_cost()


def small_backward(torch: Any) -> float:
    x, y = torch.randn(4, 4, requires_grad=True), torch.randn(4, 4)
    return per_call(lambda: (x * y).sum().backward(), 150)


def small_index(torch: Any) -> float:
    x = torch.randn(4, 4)
    return per_call(lambda: x[1], 1000) - loop_cost()


def small_softmax(torch: Any) -> float:
    x, softmax = torch.randn(4, 4), torch.nn.functional.softmax
    return per_call(lambda: softmax(x, -1), 1000) - loop_cost()


def compiled_add(torch: Any) -> float:
    x, y = torch.randn(4, 4), torch.randn(4, 4)
    f = torch.compile(lambda x, y: x + y)
    f(x, y)
    return per_call(lambda: f(x, y), 250) - loop_cost()


def compiled_add_replayed(torch: Any) -> float:
    x, y = torch.randn(4, 4), torch.randn(4, 4)
    f = torch.compile(lambda x, y: x + y, mode="reduce-overhead")
    f(x, y)
    return per_call(lambda: f(x, y), 250) - loop_cost()


def compiled_sum_grad(torch: Any) -> float:
    x, y = torch.randn(4, 4, requires_grad=True), torch.randn(4, 4)
    f = torch.compile(lambda x, y: (x * y).sum())
    f(x, y)
    return per_call(lambda: f(x, y), 150) - loop_cost()


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

        return per_call(call, 10)

    return (chain(1001) - chain(1)) / 1000


def replay_operator_npu(torch: Any) -> float:
    import torch_npu  # noqa: F401  (adds npu:0)

    return replay_operator(torch, "npu:0")


def pointwise_chain(torch: Any) -> float:
    """gelu(x*y + 1).tanh()*sigmoid(y) - exp(x).clamp(max=3) on 2^20 floats, compiled."""
    f = torch.nn.functional
    x, y = torch.randn(1 << 20), torch.randn(1 << 20)

    def chain(x: Any, y: Any) -> Any:
        return f.gelu(x * y + 1).tanh() * torch.sigmoid(y) - torch.exp(x).clamp(max=3)

    g = torch.compile(chain)
    g(x, y)
    return per_call(lambda: g(x, y), 1)


def linear_call(torch: Any) -> float:
    layer, x = torch.nn.Linear(4, 4), torch.randn(4, 4)
    return per_call(lambda: layer(x), 250) - loop_cost()


def many_linear(torch: Any) -> float:
    model, x = torch.nn.Sequential(*[torch.nn.Linear(4, 4) for _ in range(50)]), torch.randn(4, 4)
    with torch.no_grad():
        f = torch.compile(model)
        f(x)
        return per_call(lambda: f(x), 25)


def compile_time_adds(torch: Any) -> float:
    """The first call of a function of 5,000 additions less a later one."""
    x, y = torch.randn(4, 4), torch.randn(4, 4)

    def adds(x: Any, y: Any) -> Any:
        for _ in range(5000):
            x = x + y
        return x

    f = torch.compile(adds)
    return first_call(lambda: f(x, y))


def first_call(f: Callable[[], Any]) -> float:
    """Microseconds of the first call less those of a later one."""
    start = time.perf_counter_ns()
    f()
    return (time.perf_counter_ns() - start) / 1000 - per_call(f, 1, 5)


def mlp_step(torch: Any) -> Callable[[], Any]:
    torch.manual_seed(0)
    nn = torch.nn
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y, compiled = torch.randn(32, 64), torch.randint(0, 10, (32,)), torch.compile(model)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        nn.functional.cross_entropy(compiled(x), y).backward()
        optimizer.step()

    return step


def compile_time_mlp(torch: Any) -> float:
    return first_call(mlp_step(torch))


def new_gpt(torch: Any, rows: int, **config: Any) -> tuple[Any, Any, Any]:
    """A model of examples/gpt.py and a batch of as many rows of tokens."""
    from examples.gpt import GPT, Config

    torch.manual_seed(0)
    model = GPT(Config(**config))
    shape = rows, model.config.block_size
    return model, *(torch.randint(0, model.config.vocab_size, shape) for _ in range(2))


def nano_gpt(torch: Any) -> tuple[Any, Any, Any]:
    """4 layers, 128 wide, 4 heads, 12 x 64 of 65 characters."""
    return new_gpt(torch, 12, vocab_size=65)


GPT2: dict[str, Any] = dict(vocab_size=50257, block_size=256, layers=12, heads=12, width=768, bias=True)


def gpt2(torch: Any) -> tuple[Any, Any, Any]:
    """GPT-2 with 124 million parameters, and 1 x 256 tokens."""
    return new_gpt(torch, 1, **GPT2)


Step = Callable[[Any], None]


def training_of(torch: Any, made: Callable[[Any], tuple[Any, Any, Any]]) -> tuple[Any, Step]:
    """The model that `made` gives, and a step of its training by what is called in its place: itself, or compiled."""
    model, x, y = made(torch)
    optimizer = model.configure_optimizer(0.1, 1e-3, (0.9, 0.95), "cpu")

    def step(run: Any) -> None:
        _, loss = run(x, y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return model, step


def resnet_of(torch: Any) -> tuple[Any, Step]:
    """ResNet-18 and a step of its training, 4 x 3 x 224 x 224."""
    return network_on(torch, networks.resnet18(torch))


def small_resnet_of(torch: Any) -> tuple[Any, Step]:
    return network_on(torch, networks.resnet18(torch, 1, 64))


def network_on(torch: Any, network: networks.Network) -> tuple[Any, Step]:
    """The model of a network, and a step of its training by SGD."""
    model, inputs, loss = network
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)

    def step(run: Any) -> None:
        optimizer.zero_grad(set_to_none=True)
        loss(run(*inputs)).backward()
        optimizer.step()

    return model, step


def lstm_of(torch: Any) -> tuple[Any, Step]:
    """Two layers of LSTM, 256 wide, and a step of their training, 16 x 64."""
    return network_on(torch, networks.lstm(torch))


def gru_of(torch: Any) -> tuple[Any, Step]:
    return network_on(torch, networks.gru(torch))


def nano_gpt_of(torch: Any) -> tuple[Any, Step]:
    return training_of(torch, nano_gpt)


def narrow_gpt2_of(torch: Any) -> tuple[Any, Step]:
    """GPT-2's layers, 48 wide, on 8 tokens: the same graph."""
    return training_of(
        torch, lambda torch: new_gpt(torch, 1, **{**GPT2, "vocab_size": 257, "block_size": 8, "width": 48})
    )


def gpt2_of(torch: Any) -> tuple[Any, Step]:
    return training_of(torch, gpt2)


def training_step(
    torch: Any, made: Callable[[Any], tuple[Any, Any, Any]], mode: str | None, half: bool = False
) -> Callable[[], Any]:
    """A step of what `made` gives; mode None: eager; half: what it gives runs under autocast to bfloat16."""
    model, step = training_of(torch, made)
    run = torch.compile(model, mode=mode) if mode else model

    def run_half(*inputs: Any) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            return run(*inputs)

    return lambda: step(run_half if half else run)


def compile_time(made: Callable[[Any], tuple[Any, Step]]) -> Callable[[Any], float]:
    """Of a training step: the first compiled one less a later one, after two eager ones, so that memory is there. Where
    a step takes long, `made` gives a smaller one of the same graph, since what disturbs the step is counted, too."""

    def measured(torch: Any) -> float:
        model, step = made(torch)
        step(model), step(model)
        run = torch.compile(model)
        return first_call(lambda: step(run))

    return measured


def best_in_turns(ways: dict[Any, Callable[[], Any]], rounds: int) -> dict[Any, float]:
    """Of each way the best call; a round calls each of them once before two that count."""
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(rounds):
        for key, way in ways.items():
            way()
            best[key] = min(best[key], per_call(way, 1, 2))
    return best


def two_threads(made: Callable[[Any], tuple[Any, Step]], rounds: int) -> Callable[[Any], float]:
    """What a compiled step takes on two threads, of what it takes on one."""

    def measured(torch: Any) -> float:
        model, step = made(torch)
        run = torch.compile(model, mode="max-autotune")

        def on(threads: int) -> None:
            torch.set_num_threads(threads)
            step(run)

        best = best_in_turns({n: functools.partial(on, n) for n in (1, 2)}, rounds)
        return best[2] / best[1]

    return measured


def training(
    made: Callable[[Any], tuple[Any, Any, Any]], mode: str | None, batches: int, half: bool = False
) -> Callable[[Any], float]:
    """A step, under autocast to bfloat16 where `half`."""

    def measured(torch: Any) -> float:
        step = training_step(torch, made, mode, half)
        step()
        return per_call(step, 1, batches)

    return measured


def peak() -> float:
    """The most megabytes that were ever resident in this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def training_memory(made: Callable[[Any], tuple[Any, Any, Any]]) -> Callable[[Any], float]:
    """Megabytes that a model and three eager steps take, at most, beyond what there is before."""

    def measured(torch: Any) -> float:
        before = peak()
        step = training_step(torch, made, None)
        step(), step(), step()
        return peak() - before

    return measured


def half_of_single(made: Callable[[Any], tuple[Any, Any, Any]], rounds: int) -> Callable[[Any], float]:
    """What a compiled step takes under autocast to bfloat16, of what it takes without."""

    def measured(torch: Any) -> float:
        single, half = (training_step(torch, made, "max-autotune", half) for half in (False, True))
        best = best_in_turns({"single": single, "half": half}, rounds)
        return best["half"] / best["single"]

    return measured


def package_of(torch: Any) -> str:
    """What is installed: `narthex run` calls ours torch, too."""
    return Path(torch.__file__).parent.name


def import_time(torch: Any) -> float:
    """Of a fresh interpreter, less that of one which imports nothing."""
    name = package_of(torch)

    def start(code: str) -> float:
        begin = time.perf_counter_ns()
        subprocess.run([sys.executable, "-c", code], check=True)
        return (time.perf_counter_ns() - begin) / 1000

    return min(start(f"import {name}") for _ in range(7)) - min(start("pass") for _ in range(7))


def gpt2_prefill(torch: Any) -> float:
    """The logits of the last of 256 tokens, compiled."""
    model, x, _ = gpt2(torch)
    with torch.no_grad():
        run = torch.compile(model.eval())
        run(x)
        return per_call(lambda: run(x), 1, 10)


def memory_after_import(torch: Any) -> float:
    """Resident megabytes of a fresh interpreter that has imported it."""
    code = f"import {package_of(torch)}; print(next(x for x in open('/proc/self/status') if x.startswith('VmRSS')))"
    return int(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout.split()[1]) / 1024


def installed_size(torch: Any) -> float:
    """Megabytes of the distribution and of those that it requires, as they are installed here."""
    seen: set[str] = set()
    todo, size = [package_of(torch)], 0
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        distribution = metadata.distribution(name)
        size += sum(path.stat().st_size for f in distribution.files or [] if (path := Path(f.locate())).exists())
        for requirement in distribution.requires or []:
            if "extra ==" not in requirement and "sys_platform" not in requirement:
                todo.append(re.split(r"[^A-Za-z0-9._-]", requirement)[0])
    return size / 1e6


@dataclass(frozen=True)
class Row:
    """name; what it measures; the most that it may be, as a part of PyTorch's figure in the same run or in the row's
    unit; whether PyTorch has a counterpart; how many processes are measured, of Narthex always three where the most is
    in the row's unit; that unit: us, microseconds, printed in milliseconds where they are many, MB, or another."""

    name: str
    function: Callable[[Any], float]
    part: float | None = None
    budget: float | None = None
    counterpart: bool = True
    rounds: int = 3
    unit: str = "us"

    def most(self, theirs: float | None) -> float | None:
        """The budget, in the row's unit; None where PyTorch did not run the row."""
        if self.part is None:
            return self.budget
        return theirs and self.part * theirs


ROWS = [
    Row("x + y on 4x4", small_add, part=1 / 12),
    Row("x + y on 4x4, requires_grad", small_add_grad, part=1 / 12),
    Row("(x * y).sum().backward() on 4x4", small_backward, part=1 / 26),
    Row("x[1] on 4x4", small_index, part=1 / 9),
    Row("F.softmax(x, -1) on 4x4", small_softmax, part=1 / 8),
    Row("compiled call of x + y", compiled_add, part=1 / 85),
    Row("compiled call of x + y, reduce-overhead", compiled_add_replayed, part=1 / 85),
    Row("compiled call of (x * y).sum(), grad, forward", compiled_sum_grad, part=1 / 66),
    Row("compile time of x + y", compile_time_add, budget=1000, rounds=1),
    Row("compile time of a new shape", new_shape, budget=1000, rounds=1),
    Row("nn.Linear(4, 4) call", linear_call, part=1 / 14),
    Row("50 x Linear(4, 4) compiled, no_grad", many_linear, part=1 / 60),
    Row("pointwise chain on 2^20, compiled", pointwise_chain, part=0.5),
    Row("compile time of 5,000 additions", compile_time_adds, budget=30_000, rounds=1),
    Row("compile time of an MLP's training step", compile_time_mlp, budget=5000, rounds=1),
    Row("compile time of nano GPT's training step", compile_time(nano_gpt_of), budget=20_000, rounds=1),
    Row("compile time of GPT-2's training step", compile_time(narrow_gpt2_of), budget=100_000, rounds=1),
    Row("compile time of ResNet-18's training step", compile_time(small_resnet_of), budget=60_000, rounds=1),
    Row("nano GPT training step, eager", training(nano_gpt, None, 100), part=0.75),
    Row("nano GPT training step, max-autotune", training(nano_gpt, "max-autotune", 100), part=0.75),
    Row("nano GPT training step, reduce-overhead", training(nano_gpt, "reduce-overhead", 100), part=0.75),
    Row("GPT-2 124M training step, eager", training(gpt2, None, 5), part=0.62, rounds=2),
    Row("GPT-2 124M training step, max-autotune", training(gpt2, "max-autotune", 5), part=0.62, rounds=2),
    Row("GPT-2 124M training step, bfloat16", training(gpt2, "max-autotune", 5, half=True), part=0.8, rounds=2),
    Row("GPT-2's step, bfloat16", half_of_single(gpt2, 5), budget=1, unit="of float32", counterpart=False),
    Row("GPT-2 124M prefill of 256 tokens, compiled", gpt2_prefill, part=0.85, rounds=2),
    Row("nano GPT's step, two threads", two_threads(nano_gpt_of, 60), budget=1 / 1.7, unit="of one", counterpart=False),
    Row("GPT-2's step, two threads", two_threads(gpt2_of, 3), budget=1 / 1.7, unit="of one", counterpart=False),
    Row("ResNet-18's step, two threads", two_threads(resnet_of, 8), budget=1 / 1.7, unit="of one", counterpart=False),
    Row("LSTM's step, two threads", two_threads(lstm_of, 60), budget=1 / 1.7, unit="of one", counterpart=False),
    Row("GRU's step, two threads", two_threads(gru_of, 60), budget=1 / 1.7, unit="of one", counterpart=False),
    Row("peak memory of nano GPT's step, eager", training_memory(nano_gpt), part=0.85, rounds=2, unit="MB"),
    Row("peak memory of GPT-2's step, eager", training_memory(gpt2), part=0.85, rounds=2, unit="MB"),
    Row("import", import_time, budget=100_000),
    Row("resident memory after import", memory_after_import, budget=40, unit="MB"),
    Row("installed size with what it requires", installed_size, budget=100, rounds=1, unit="MB"),
    Row("replay, an operator, cpu", replay_operator, budget=0.06, counterpart=False),
    Row("replay, an operator, npu:0", replay_operator_npu, budget=0.15, counterpart=False),
]
