"""Runs the rows and prints a table. ROW=e,f picks clauses. Exit status 1 if a row fails or a clause has none."""

from __future__ import annotations

import os
import sys
import time
import traceback

from tests.line.rows import CLAUSES, ROWS

LIMIT = 60.0  # seconds for all rows


def main() -> int:
    wanted = [clause for clause in os.environ.get("ROW", "").split(",") if clause]
    started, failures = time.perf_counter(), []
    missing = sorted(set(CLAUSES) - {row.clause for row in ROWS})
    for row in ROWS:
        if wanted and row.clause not in wanted:
            continue
        start = time.perf_counter()
        try:
            row.function()
            verdict = "ok"
        except Exception:
            verdict = "FAILED"
            failures.append((row, traceback.format_exc()))
        print(f"({row.clause}) {row.name:66} {time.perf_counter() - start:7.2f} s  {verdict}", flush=True)
    total = time.perf_counter() - started
    for row, text in failures:
        print(f"\n---- ({row.clause}) {row.name}; again with: ROW={row.clause} python -m tests.line\n{text}")
    if missing:
        print("no row for: " + ", ".join(missing))
    if total > LIMIT:
        print(f"the rows took {total:.0f} s, more than {LIMIT:.0f}")
    n = len(ROWS) if not wanted else sum(row.clause in wanted for row in ROWS)
    print(f"{n - len(failures)} passed, {len(failures)} failed ({total:.1f} s)")
    return 1 if failures or missing or total > LIMIT else 0


if __name__ == "__main__":
    sys.exit(main())
