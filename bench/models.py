"""Whole networks, eager and compiled, beside PyTorch: `make bench-models`.

Every figure comes from processes of its own, two for each way, all ways in turns: milliseconds a step, the best of as
many as fit in a few seconds, and the most memory that a process held beyond what it held before the network was made.
PyTorch's inference is also measured with TORCHINDUCTOR_FREEZING=1, and by ONNX Runtime and OpenVINO where they can
run the network. CASE=text picks networks by name, WAYS=eager (or several, with commas between) the ways that are
measured; LEVEL and THREADS: side.py. The ratio is that of Narthex's best to the best of all others; what it may be,
of all ways, stands beside it. Memory is that of Narthex, eager and replayed, over that of PyTorch, eager.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from bench import networks, side
from bench.rivals import RIVALS
from bench.rows import network_on, peak


@dataclass(frozen=True)
class Case:
    """A network, whether it is trained, and the most that Narthex's best time may be of PyTorch's best."""

    name: str
    network: str
    trains: bool
    budget: float
    half: bool = False


CASES = [
    Case("ResNet-18 inference, 4 x 3 x 224 x 224", "resnet18", False, 0.75),
    Case("ResNet-18 training", "resnet18", True, 0.8),
    Case("U-Net training, 1 x 3 x 256 x 256", "unet", True, 0.95),
    Case("depthwise (MobileNetV2) inference", "mobilenet", False, 0.75),
    Case("depthwise (MobileNetV2) training, 8 x 3 x 224 x 224", "mobilenet_batch", True, 0.95),
    Case("LSTM training, 2 x 256, 16 x 64", "lstm", True, 0.75),
    Case("GRU training, 2 x 256, 16 x 64", "gru", True, 0.6),
    Case("VAE training", "vae", True, 0.95),
    Case("DCGAN training", "dcgan", True, 0.95),
    Case("BERT-size inference, 6 x 384, 8 x 128", "bert", False, 0.85),
    Case("BERT-size inference, bfloat16", "bert", False, 0.8, half=True),
    Case("GPT-2 decode, cache written in place", "decode", False, 0.8),
    Case("ODE of 1,000 operators, training", "ode", True, 0.1),
]
WAYS = {
    "torch": ("eager", "default", "freezing", *RIVALS),
    "narthex": ("eager", "max-autotune", "reduce-overhead"),
}
SECONDS, ROUNDS = 3.0, 2  # that are measured in a process; processes


def stepper(torch: Any, case: Case, way: str) -> Any:
    """A step of the network: forward, and backward and SGD where it is trained."""
    torch.manual_seed(0)
    module, inputs, loss = getattr(networks, case.network)(torch)
    module.train(case.trains)
    if way in RIVALS:
        return RIVALS[way](torch, module, inputs, case.half)
    run = module if way == "eager" else torch.compile(module, mode=None if way in ("default", "freezing") else way)
    half = torch.autocast("cpu", torch.bfloat16, enabled=case.half)

    def infer() -> None:
        with torch.no_grad(), half:
            run(*inputs)

    if not case.trains:
        return infer
    _, step = network_on(torch, (module, inputs, loss))
    return lambda: step(run)


def measure(torch: Any, name: str, way: str) -> dict[str, float]:
    """ms: the best step; first: the first step; MB: memory beyond the start."""
    case = next(case for case in CASES if case.name == name)
    before, begin = peak(), time.perf_counter()
    step = stepper(torch, case, way)
    step()
    first, best, end = time.perf_counter() - begin, float("inf"), time.perf_counter() + SECONDS
    step()
    while time.perf_counter() < end:
        start = time.perf_counter_ns()
        step()
        best = min(best, (time.perf_counter_ns() - start) / 1e6)
    return {"ms": best, "first": first * 1000, "MB": peak() - before}


RUN = """
import json, sys
if sys.argv[1] == "narthex":
    from narthex._run import install
    install()
import torch
from bench import models, side
side.prepare(torch)
print("figures", json.dumps(models.measure(torch, *sys.argv[2:])))
"""


def of(which: str, case: Case, way: str, cache: str) -> dict[str, float] | None:
    """The figures of one process, PyTorch's with a folder for what it compiles; None with the reason on stderr."""
    freezing = {"TORCHINDUCTOR_FREEZING": "1"} if way == "freezing" else {}
    environment = side.environment(TORCHINDUCTOR_CACHE_DIR=cache, **freezing)
    command = [sys.executable, "-c", RUN, which, case.name, way]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("figures ")]
    if not lines:
        reason = done.stderr.strip().splitlines()[-1:] if way in RIVALS else [done.stderr[-800:]]
        print(f"{case.name}, {way} of {which}: failed:", *reason, file=sys.stderr)
        return None
    return json.loads(lines[0].removeprefix("figures "))


def better(one: dict[str, float] | None, other: dict[str, float] | None) -> dict[str, float] | None:
    """Of two processes: the faster step; the first step and the memory of the first process, which found no cache."""
    return {**one, "ms": min(one["ms"], other["ms"])} if one and other else one or other


def row(case: Case, wanted: list[str]) -> dict[str, Any]:
    """Measures and prints a case in the wanted ways."""
    found: dict[str, Any] = {(which, way): None for which, ways in WAYS.items() for way in ways}
    measured = [key for key in found if key[1] in wanted and not (case.trains and key[1] in ("freezing", *RIVALS))]
    with tempfile.TemporaryDirectory() as cache:
        for turn in range(ROUNDS):
            for which, way in measured:
                if turn and found[which, way] is None:
                    continue  # it failed
                figures = of(which, case, way, cache)
                found[which, way] = better(found[which, way], figures)
    times = {key: figures["ms"] if figures else None for key, figures in found.items()}
    best = {
        which: min((times[which, way] for way in ways if times[which, way]), default=0) for which, ways in WAYS.items()
    }
    ratio = best["narthex"] / best["torch"] if all(best.values()) else float("nan")
    held = [found[key] for key in (("torch", "eager"), ("narthex", "eager"), ("narthex", "reduce-overhead"))]
    memory = "; ".join(f"{mine['MB'] / held[0]['MB']:.2f}" if mine and held[0] else "-" for mine in held[1:])
    cells = [f"{'-' if t is None else f'{t:#.3g}':>9}" for t in times.values()]
    print(f"{case.name:40}", *cells, f"{ratio:7.2f} {case.budget:7.2f} {memory:>12}", flush=True)
    return {"case": case.name, "ratio": ratio, "budget": case.budget} | {
        f"{which} {way}": figures for (which, way), figures in found.items()
    }


def main() -> int:
    wanted = os.environ.get("CASE", "")
    cases = [case for case in CASES if wanted in case.name]
    if not cases:
        print(f"no case contains {wanted!r}; there are: {', '.join(case.name for case in CASES)}")
        return 1
    print(f"{platform.processor() or platform.machine()}, {date.today()}, {side.describe()}; ms a step, the best")
    heads = ("PyTorch", "compiled", "frozen", "ORT", "OpenVINO", "Narthex", "autotune", "replayed")
    print(f"{'':40}", *(f"{head:>9}" for head in heads), end="")
    print(f" {'ratio':>7} {'budget':>7} {'memory':>12}")
    ways = os.environ.get("WAYS", ",".join(way for ways in WAYS.values() for way in ways)).split(",")
    rows = [row(case, ways) for case in cases]
    Path("build").mkdir(exist_ok=True)
    Path("build/bench_models.json").write_text(json.dumps({"date": str(date.today()), "rows": rows}, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
