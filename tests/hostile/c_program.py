"""The C program of examples/c with every allocation failed once, sanitizers and leak check on.

Each run must end with an exit status of 1 and a message, or succeed with the right output; never by a signal, a report
or a leak. Argument: the folder that the sanitized build is installed in.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
LIMIT = 20000


def main(site: Path) -> int:
    package = site / "narthex"
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "line"
        flags = [
            "-fsanitize=address,undefined",
            f"-I{package}/include",
            f"-L{package}/lib",
            f"-Wl,-rpath,{package}/lib",
        ]
        subprocess.run(
            [
                "gcc",
                "-std=gnu11",
                "-g",
                str(ROOT / "examples/c/line.c"),
                *flags,
                "-lnarthex",
                "-lm",
                "-o",
                str(program),
            ],
            check=True,
        )
        faults = []
        for arguments in ([], ["save", f"{folder}/model.nxm"], ["run", f"{folder}/model.nxm"]):
            right = subprocess.run([program, *arguments], capture_output=True, text=True, check=True).stdout
            n = failed = 0
            while n < LIMIT and len(faults) < 10:
                n += 1
                environment = {**os.environ, "NARTHEX_FAIL_ALLOC": str(n), "ASAN_OPTIONS": "detect_leaks=1:exitcode=99"}
                run = subprocess.run([program, *arguments], capture_output=True, text=True, env=environment)
                if run.returncode == 0 and run.stdout == right and not run.stderr:
                    if n - failed > 3:
                        break
                    continue
                failed = n
                if run.returncode != 1 or not run.stderr.strip():
                    faults.append(f"line {' '.join(arguments)}, N={n}: status {run.returncode}\n{run.stderr[-1500:]}")
            print(f"line {' '.join(arguments)[:12]}: {failed} allocations failed, {len(faults)} faults", flush=True)
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
