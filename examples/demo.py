"""f(x, w, b) = (x @ w.t() * b + b).sum() and its gradients, in every way that Narthex runs a program.

Needs no PyTorch. Prints a row for each way: the value, how far value and gradients are from eager on the CPU, what the
first call took (with capture and compilation) and what a later one takes. Then a training run, and the graph from C.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import narthex as torch
from narthex.compat import torch_npu  # noqa: F401  (adds npu:0)

C_PROGRAM = Path(__file__).resolve().parent / "c/line.c"


def f(x: Any, w: Any, b: Any) -> Any:
    return (x @ w.t() * b + b).sum()


def make_inputs(device: str) -> list[Any]:
    torch.manual_seed(0)
    return [torch.randn(*shape).to(device).requires_grad_() for shape in ((3, 4), (5, 4), (5,))]


def value_and_gradients(function: Callable[..., Any], inputs: list[Any]) -> list[float]:
    for tensor in inputs:
        tensor.grad = None
    loss = function(*inputs)
    loss.backward()
    return [loss.item(), *(number for tensor in inputs for number in tensor.grad.view(-1).tolist())]


def microseconds(call: Callable[[], Any], n: int) -> float:
    start = time.perf_counter_ns()
    for _ in range(n):
        call()
    return (time.perf_counter_ns() - start) / n / 1000


def show_way(name: str, function: Callable[..., Any], device: str, expected: list[float] | None) -> list[float]:
    inputs = make_inputs(device)
    first = microseconds(lambda: value_and_gradients(function, inputs), 1)
    numbers = value_and_gradients(function, inputs)
    later = microseconds(lambda: function(*inputs), 200)
    difference = max(abs(a - b) for a, b in zip(numbers, expected or numbers))
    print(f"  {name:34} {numbers[0]:10.6f} {difference:12.1e} {first / 1000:9.2f} ms {later:9.2f} us", flush=True)
    assert difference < 1e-5, f"{name} differs from eager"
    return numbers


def show_training(device: str, mode: str) -> None:
    inputs = make_inputs(device)
    function = torch.compile(f, mode=mode)
    losses = []
    for _ in range(5):
        loss = function(*inputs)
        loss.backward()
        losses.append(loss.item())
        with torch.no_grad():
            for p in inputs:
                p.add_(p.grad, alpha=-0.02)
                p.grad = None
    print(f"  {device}, {mode}: " + " -> ".join(f"{loss:.3f}" for loss in losses), flush=True)
    assert losses == sorted(losses, reverse=True), "training must lower the value"


def show_c() -> None:
    with tempfile.TemporaryDirectory() as folder:
        program, model = Path(folder) / "line", Path(folder) / "f.nxm"
        include, lib = torch.include_dir(), torch.lib_dir()
        subprocess.run(
            [
                "cc",
                str(C_PROGRAM),
                f"-I{include}",
                f"-L{lib}",
                f"-Wl,-rpath,{lib}",
                "-lnarthex",
                "-lm",
                "-o",
                str(program),
            ],
            check=True,
        )
        for arguments in ([], ["save", str(model)], ["run", str(model)]):
            output = subprocess.run([program, *arguments], check=True, capture_output=True, text=True).stdout
            print(
                "\n".join(
                    f"  $ ./line {' '.join(arguments[:1])}" if i == 0 else f"  {line}"
                    for i, line in enumerate(["", *output.splitlines()])
                )
            )
    print(flush=True)


def main() -> int:
    print("f(x, w, b) = (x @ w.t() * b + b).sum()\n")
    print(f"  {'way':34} {'value':>10} {'difference':>12} {'first call':>12} {'later':>12}")
    expected = show_way("eager, cpu", f, "cpu", None)
    show_way("eager, npu:0", f, "npu:0", expected)
    for device in ("cpu", "npu:0"):
        for mode in ("max-autotune", "reduce-overhead"):
            show_way(f"compiled, {mode}, {device}", torch.compile(f, mode=mode), device, expected)
    print("\nTraining: forward and backward compiled, p.add_(p.grad, alpha=-0.02)\n")
    for device in ("cpu", "npu:0"):
        for mode in ("max-autotune", "reduce-overhead"):
            show_training(device, mode)
    print("\nFrom C, without Python: cc examples/c/line.c -lnarthex\n")
    show_c()
    assert "torch" not in sys.modules, "the demo must not need PyTorch"
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
