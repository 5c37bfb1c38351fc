"""Runs the rows, both sides as alternating processes, and prints a table with ratios; JSON goes to build/bench.json.

A figure is the best of three processes, or of as many as the row says, the same number of either side: what disturbs a
process, makes it slower. Where the most is no part of PyTorch's figure, that may come from fewer processes.

ROW=text picks the rows whose name contains it, ROW=kernels the table of single operators (kernels.py); LEVEL and
THREADS say how both sides run (side.py). A row whose figure is over its budget says so; nothing fails.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path

from bench import kernels, side
from bench.rows import ROWS, Row

SIDE = """
import sys
which, name = sys.argv[1:3]
if which == "narthex":
    from narthex._run import install
    install()
import torch
from bench import side
side.prepare(torch)
from bench.rows import ROWS
print("figure", next(row for row in ROWS if row.name == name).function(torch))
"""


def measure(which: str, row: Row) -> float | None:
    """Microseconds, or None with the reason on stderr when the side could not run the row."""
    with tempfile.TemporaryDirectory() as cache:
        environment = side.environment(TORCHINDUCTOR_CACHE_DIR=cache)
        run = subprocess.run(
            [sys.executable, "-c", SIDE, which, row.name], env=environment, capture_output=True, text=True
        )
    figures = [line.split()[1] for line in run.stdout.splitlines() if line.startswith("figure ")]
    if not figures:
        print(f"{row.name}, {which}: failed\n{run.stderr[-800:]}", file=sys.stderr)
        return None
    return float(figures[0])


def text(figure: float | None, unit: str) -> str:
    if figure is None:
        return "-"
    if unit != "us":
        return f"{figure:.1f} {unit}" if unit == "MB" else f"{figure:.3f} {unit}"
    return f"{figure:.3f} us" if figure < 1000 else f"{figure / 1000:.1f} ms"


def main() -> int:
    wanted = os.environ.get("ROW", "")
    if wanted == "kernels":
        return kernels.main()
    rows = [row for row in ROWS if wanted in row.name]
    if not rows:
        print(f"no row contains {wanted!r}; there are: {', '.join(row.name for row in ROWS)}")
        return 1
    results = []
    print(f"{platform.processor() or platform.machine()}, {date.today()}, {side.describe()}; the best")
    print(f"{'':46} {'PyTorch':>12} {'Narthex':>12} {'ratio':>8} {'budget':>12}")
    for row in rows:
        figures: dict[str, list[float]] = {"torch": [], "narthex": []}
        for i in range(row.rounds if row.part else 3):
            for which in ("torch", "narthex") if row.counterpart and i < row.rounds else ("narthex",):
                if (figure := measure(which, row)) is not None:
                    figures[which].append(figure)
        theirs, ours = (min(figures[which], default=None) for which in figures)
        ratio = f"{theirs / ours:.1f}x" if theirs and ours else ""
        most = row.most(theirs)
        verdict = "" if ours is not None and most is not None and ours <= most else "  over"
        cells = [f"{text(figure, row.unit):>12}" for figure in (theirs, ours)]
        cells += [f"{ratio:>8}", f"{text(most, row.unit):>12}{verdict}"]
        print(f"{row.name:46}", *cells, flush=True)
        results.append(
            {"row": row.name, "unit": row.unit, "torch": theirs, "narthex": ours, "budget": most, "runs": figures}
        )
    Path("build").mkdir(exist_ok=True)
    Path("build/bench.json").write_text(json.dumps({"date": str(date.today()), "rows": results}, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
