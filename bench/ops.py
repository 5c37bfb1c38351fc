"""Every operator on about 2^18 elements, both sides: `make bench-ops`. CASE=text picks cases or a family; LEVEL,
THREADS: side.py; LAYOUT=transposed or sliced: operands that lie otherwise (cases.py). The hot operators run on 2^8 and
2^24 elements, too (the families `small` and `large`).

The cases (cases.txt) are expressions over operands (cases.py), which both sides evaluate. Each side runs all of them
in one process, the sides alternate, the best time of each counts: the processor's time of the thread, which others on
the machine disturb least, with several threads time itself. Printed are the geometric mean of a family, then all cases
by ratio, the slowest first; build/bench-ops.json keeps them.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from datetime import date
from pathlib import Path
from typing import Any

from bench import side
from bench.cases import cases, laid, operands
from bench.rows import per_call


def measure(torch: Any, wanted: str, wanted_of: list[tuple[str, str]], names: dict[str, Any]) -> dict[str, float]:
    """Microseconds of each case; one that this side cannot run is left out and said on stderr."""
    figures: dict[str, float] = {}
    clock = time.thread_time_ns if side.threads() == 1 else time.perf_counter_ns
    with torch.no_grad():
        for family, text in wanted_of:
            if wanted not in text and wanted != family:
                continue
            try:
                function = eval(f"lambda: {text}", names)
                function()
                once = per_call(function, 1, 3, clock)
                n = max(1, int(2000 / (once + 0.1)))
                figures[text] = min(once, per_call(function, n, 5 if n > 1 else 2, clock))
            except (AttributeError, NotImplementedError, TypeError, RuntimeError, IndexError) as error:
                print(f"{sys.argv[1]}: {text}: {type(error).__name__}: {str(error)[:100]}", file=sys.stderr)
    return figures


def run(torch: Any, wanted: str) -> dict[str, float]:
    """Microseconds of each operator's cases on this side."""
    return measure(torch, wanted, cases(), laid(operands(torch), os.environ.get("LAYOUT", "")))


def mean(ratios: list[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def report(module: str, all_cases: list[tuple[str, str]], title: str) -> int:
    """Runs module.run() on both sides, prints the families and the cases, and keeps them as build/<its name>.json."""
    best = side.best_of(module, 2)
    theirs, ours = best["torch"], best["narthex"]
    rows = [(family, text, theirs[text], ours.get(text)) for family, text in all_cases if text in theirs]
    known = [(family, text, theirs, ours, ours / theirs) for family, text, theirs, ours in rows if ours]
    if not known:
        raise SystemExit("no case was run on both sides")
    print(f"{title}, {side.describe()}, {date.today()}")
    print("Narthex's time over PyTorch's\n")
    for family in dict.fromkeys(row[0] for row in known):
        ratios = [row[4] for row in known if row[0] == family]
        if ratios:
            print(f"{family:14} {mean(ratios):6.2f}  of {len(ratios)}")
    ratios = [row[4] for row in known]
    above = [sum(ratio > limit for ratio in ratios) for limit in (1.0, 1.3, 1.5)]
    print(f"{'all':14} {mean(ratios):6.2f}  of {len(ratios)}; above 1: {above[0]}, 1.3: {above[1]}, 1.5: {above[2]}\n")
    for family, text, theirs, ours, ratio in sorted(known, key=lambda row: -row[4]):
        print(f"{ratio:6.2f}  {theirs:9.1f} us {ours:9.1f} us  {text}   ({family})")
    for family, text, _, ours in rows:
        if ours is None:
            print(f"     -  not there: {text}   ({family})")
    Path("build").mkdir(exist_ok=True)
    kept = [dict(zip(("family", "case", "torch", "narthex", "ratio"), row)) for row in known]
    record = {"date": str(date.today()), "how": side.describe(), "rows": kept}
    Path(f"build/{module.replace('.', '-')}.json").write_text(json.dumps(record, indent=1))
    return 0


if __name__ == "__main__":
    layout = os.environ.get("LAYOUT", "row by row")
    raise SystemExit(report("bench.ops", cases(), f"2^18 elements (small: 2^8, large: 2^24), {layout}"))
