"""Trains examples/gpt.py on real text, compiled and eagerly, and continues a prompt from Python and from C.

    python -m examples.demo             all of it: about two minutes
    python -m examples.demo --steps 50  less of it

Leaves the plot of the losses, the checkpoint and the model file in build/demo. Then runs the two programs for npu:0.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
OUT = HERE.parent / "build/demo"
PROGRAMS = HERE.parent / "tests/line/programs"
PROMPT = "def read(self"
TEMPERATURE = "0.8"
NARTHEX = [sys.executable, "-m", "narthex", "run"]


def say(text: str) -> None:
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}", flush=True)


def train(name: str, steps: int, *options: str) -> dict[str, Any]:
    """Runs examples/gpt.py as a program of its own; what it measured."""
    command = [*NARTHEX, str(HERE / "gpt.py"), "--out", str(OUT / name), "--data", str(OUT / "data")]
    command += ["--steps", str(steps), "--eval-every", str(max(1, steps // 6)), "--prompt", PROMPT]
    command += ["--temperature", TEMPERATURE, "--lr", "3e-3", *options]
    subprocess.run(command, check=True)
    return json.loads((OUT / name / "history.json").read_text())


def plot(history: dict[str, Any], path: Path) -> None:
    """Losses of every step, and of training and held-out text where they were evaluated: as PNG and in the terminal."""
    import matplotlib
    import plotext

    matplotlib.use("Agg")
    from matplotlib import pyplot

    at, on_train, on_held = zip(*history["evaluated"])
    figure, axes = pyplot.subplots(figsize=(8, 4.5))
    axes.plot(history["loss"], color="0.8", label="each step")
    axes.plot(at, on_train, marker="o", label="training text")
    axes.plot(at, on_held, marker="s", label="held-out text")
    axes.set(xlabel="step", ylabel="loss (nats a character)", title="A GPT on the standard library's source")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plotext.plot_size(90, 18)
    plotext.theme("clear")
    plotext.plot(list(at), list(on_train), label="training text")
    plotext.plot(list(at), list(on_held), label="held-out text")
    plotext.xlabel("step")
    plotext.title("loss")
    plotext.show()


def generate_from_c(model: Path, count: int) -> str:
    """Builds examples/c/generate.c against the installed library and runs it."""
    from narthex import include_dir, lib_dir

    program = OUT / "generate"
    linked = [f"-I{include_dir()}", f"-L{lib_dir()}", f"-Wl,-rpath,{lib_dir()}", "-lnarthex"]
    subprocess.run(["cc", "-O2", str(HERE / "c/generate.c"), *linked, "-o", str(program)], check=True)
    command = [str(program), str(model), "64", PROMPT, str(count), TEMPERATURE]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.rstrip("\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=600, help="of training, each way (600)")
    args = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    OUT.mkdir(parents=True, exist_ok=True)
    model = OUT / "gpt.nxm"

    say("Training compiled: torch.compile(model)")
    compiled = train("compiled", args.steps, "--compile", "--sample", "240", "--export", str(model))
    plot(compiled, OUT / "loss.png")
    print(f"plot: {OUT / 'loss.png'}")

    say("The same steps eagerly")
    eager = train("eager", args.steps, "--sample", "0")
    apart = max(abs(a - b) / a for a, b in zip(eager["loss"], compiled["loss"]))
    step, step_eager = statistics.median(compiled["seconds"]), statistics.median(eager["seconds"])
    print(f"the first compiled step, with the compilation, took {1000 * compiled['seconds'][0]:.0f} ms")
    times = f"{1000 * step:.1f} ms compiled, {1000 * step_eager:.1f} ms eagerly"
    print(f"a step takes {times}: {step_eager / step:.2f} times as fast")
    print(f"the losses of the two differ by at most {apart:.1e} of their value")

    say("The trained model continues the prompt from C, with the same characters")
    print(generate_from_c(model, 240))

    for program in sorted(PROGRAMS.glob("*.py")):
        log = OUT / f"{program.stem}.log"
        say(f"npu:0: {program.name} (its log: {log})")
        with log.open("w") as file:
            subprocess.run([*NARTHEX, str(program)], check=True, stderr=file)


if __name__ == "__main__":
    main()
