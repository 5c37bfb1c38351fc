"""One side of a comparison: a process with its threads and its instruction-set level.

LEVEL=v3 limits both sides to AVX2 on a processor that has more, THREADS=n gives both n threads (default 1)."""

from __future__ import annotations

import json
import os
import subprocess
import sys

# What limits each library in the process to a level; Narthex, OpenBLAS, ATen, oneDNN, MKL.
LIMITS = {
    "": {},
    "v3": {
        "NARTHEX_LEVEL": "v3",
        "OPENBLAS_CORETYPE": "Haswell",
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    },
}


def level() -> str:
    """The level that LEVEL asks for, "" for all that the processor has."""
    wanted = os.environ.get("LEVEL", "")
    if wanted not in LIMITS:
        raise SystemExit(f"LEVEL={wanted}: both sides can be limited to {', '.join(filter(None, LIMITS))}")
    return wanted


def threads() -> int:
    return int(os.environ.get("THREADS", "1"))


def environment(**more: str) -> dict[str, str]:
    """The environment of a side."""
    return {**os.environ, "OMP_NUM_THREADS": str(threads()), **LIMITS[level()], **more}


def describe() -> str:
    """How both sides run, for the head of a table."""
    count = f"{threads()} threads" if threads() > 1 else "one thread"
    return f"{count}, limited to {level()}" if level() else count


def prepare(torch) -> None:
    """In the process of a side, before anything is measured."""
    torch.set_num_threads(threads())
    if level() == "v3" and "_inductor" in dir(torch):
        torch._inductor.config.cpp.simdlen = 256


RUN = """
import json, sys
if sys.argv[1] == "narthex":
    from narthex._run import install
    install()
import importlib
import torch
from bench import side
side.prepare(torch)
print("figures", json.dumps(importlib.import_module(sys.argv[2]).run(torch, sys.argv[3])))
"""


def best_of(module: str, rounds: int) -> dict[str, dict[str, float]]:
    """Microseconds of the cases of `module`.run(torch, CASE) on both sides, which alternate: the best of all rounds."""
    best: dict[str, dict[str, float]] = {"torch": {}, "narthex": {}}
    for _ in range(int(os.environ.get("ROUNDS", rounds))):
        for which, figures in best.items():
            command = [sys.executable, "-c", RUN, which, module, os.environ.get("CASE", "")]
            done = subprocess.run(command, env=environment(), stdout=subprocess.PIPE, text=True, check=True)
            line = next(line for line in done.stdout.splitlines() if line.startswith("figures "))
            for name, figure in json.loads(line.removeprefix("figures ")).items():
                figures[name] = min(figure, figures.get(name, figure))
    return best
