"""`make check-hostile`: failing allocations, then the address and undefined-behaviour sanitizers over the same rows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def run(title: str, command: list[str], **environment: str) -> bool:
    print(f"== {title}", flush=True)
    result = subprocess.run(command, cwd=ROOT, env={**os.environ, **environment})
    print(f"== {title}: {'passed' if result.returncode == 0 else f'FAILED ({result.returncode})'}\n", flush=True)
    return result.returncode == 0


def build_sanitized() -> Path:
    """A second build with the sanitizers, installed into build/asan/site; returns that folder."""
    build, site = ROOT / "build/asan", ROOT / "build/asan/site"
    if not (build / "meson-info").exists():
        options = ["-Db_sanitize=address,undefined", "-Db_lundef=false", "-Dunit=true", "--buildtype=debugoptimized"]
        folders = [f"-Dpython.platlibdir={site}", f"-Dpython.purelibdir={site}"]
        subprocess.run(
            ["meson", "setup", str(build), *options, *folders], cwd=ROOT, check=True, stdout=subprocess.DEVNULL
        )
    subprocess.run(["meson", "install", "-C", str(build), "--quiet"], cwd=ROOT, check=True)
    return site


def main() -> int:
    passed = [run("failing allocations", [sys.executable, "-m", "tests.hostile.allocations"])]
    passed.append(
        run("failing allocations, inside PyTorch", [sys.executable, "-m", "tests.hostile.allocations", "bridge"])
    )
    site = build_sanitized()
    passed.append(run("failing allocations, C program", [sys.executable, "-m", "tests.hostile.c_program", str(site)]))
    runtime = subprocess.run(
        ["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    sanitized = {
        "LD_PRELOAD": runtime,
        "PYTHONPATH": str(site),
        "PYTHONMALLOC": "malloc",
        "ASAN_OPTIONS": "detect_leaks=0:allow_user_segv_handler=1:detect_stack_use_after_return=0",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    }
    passed.append(run("sanitizers: f in every way", [sys.executable, "-m", "tests.hostile.sanitized"], **sanitized))
    unit = {"ASAN_OPTIONS": "detect_leaks=1", "UBSAN_OPTIONS": sanitized["UBSAN_OPTIONS"]}
    passed.append(run("sanitizers: C unit tests", ["meson", "test", "-C", "build/asan", "--print-errorlogs"], **unit))
    return 0 if all(passed) else 1


if __name__ == "__main__":
    raise SystemExit(main())
