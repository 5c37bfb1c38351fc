"""`make check-hostile`: failing allocations, Ctrl-C, 10,000 random graphs, 100,000 random programs, the sanitizers over
the C tests, a million model files and the operator suite, and the library on another processor.

Three builds of its own, made on the first run: build/asan (address and undefined behaviour), build/tsan (threads) and
build/aarch64 (64-bit ARM, run under qemu-user). Ends with one line.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from scipy_openblas32 import get_lib_dir

ROOT = Path(__file__).resolve().parent.parent.parent
ASAN, TSAN, AARCH64 = ROOT / "build/asan", ROOT / "build/tsan", ROOT / "build/aarch64"
SITE = ASAN / "site"
PYTHON = [sys.executable, "-m"]
# Work is for two processors at least; what PyTorch computes beside us needs no more threads than that.
WORKERS = str(min(4, os.cpu_count() or 1))
PYTEST = [*PYTHON, "pytest", "-q", "-n", WORKERS, "-p", "no:cacheprovider", "--no-header"]
# What threads share: memory, devices, replays, the engine; not the reader of model files, one thread's and long.
ENGINE = ("engine/test_device", "engine/test_program")
THREADED = ("base/test_*", "core/test_*", "device/test_*", "replay/test_*", "compile/test_*", *ENGINE)


def setup(build: Path, *options: str) -> list[str]:
    """The command that makes a build folder, once."""
    fixed = ["-Db_lundef=false", "-Dunit=true", "--buildtype=debugoptimized"]
    again = ["--reconfigure"] if (build / "meson-info").exists() else []
    return ["meson", "setup", *again, str(build), *fixed, *options]


def unit_tests(build: Path, *patterns: str) -> list[str]:
    """The C unit tests of a build by meson's names, which are made of the paths; without patterns all of them."""
    folder = ROOT / "tests/unit"
    files = [path.relative_to(folder) for pattern in patterns for path in sorted(folder.glob(f"{pattern}.c"))]
    names = ["_".join(file.with_suffix("").parts) for file in files]
    patience = "60" if build == AARCH64 else "10"  # an emulated processor is slower than a sanitizer
    return ["meson", "test", "-C", str(build), "--print-errorlogs", "--timeout-multiplier", patience, *names]


def without_random_addresses() -> list[str]:
    """The thread sanitizer of gcc 12 and older does not start where the system spreads addresses widely."""
    plain = ["setarch", "-R"]
    try:
        return plain if subprocess.run([*plain, "true"], capture_output=True).returncode == 0 else []
    except FileNotFoundError:
        return []


def sanitized() -> dict[str, str]:
    """The environment in which Python loads the sanitized library. PyTorch beside it throws, and the sanitizer's
    runtime finds what throws only when it is there from the start."""
    names = ("libasan.so", "libstdc++.so.6")
    ask = [["gcc", f"-print-file-name={name}"] for name in names]
    found = [subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() for command in ask]
    return {
        "LD_PRELOAD": " ".join(found),
        "NARTHEX_BLAS": str(Path(get_lib_dir(), "libscipy_openblas.so")),
        "PYTHONPATH": str(SITE),
        "PYTHONMALLOC": "malloc",
        "OMP_NUM_THREADS": "2",
        "ASAN_OPTIONS": "detect_leaks=0:allow_user_segv_handler=1:detect_stack_use_after_return=0",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    }


Step = tuple[str, list[str], dict[str, str]]


def steps() -> Iterator[Step]:
    """Title, command, environment. A build stands before what needs it."""
    hostile = [*PYTHON, "tests.hostile.allocations"]
    yield "failing allocations: f in every way", hostile, {}
    yield "failing allocations: training steps of a GPT", [*hostile, "gpt"], {}
    yield "failing allocations: inside PyTorch", [*hostile, "bridge"], {}
    yield "Ctrl-C: training steps of a GPT", [*PYTHON, "tests.hostile.interrupts", "60"], {}

    strict = {"NARTHEX_POISON": "1", "NARTHEX_VERIFY_GRAPHS": "1"}
    yield "random graphs, in poisoned memory", [*PYTHON, "tests.compile.test_random_graphs", "0-10000"], strict

    yield "random programs", [*PYTHON, "tests.capture.test_random", "0-100000"], {}
    yield "random programs, elements decide", [*PYTHON, "tests.capture.test_random_elements", "0-100000"], {}

    folders = [f"-Dpython.platlibdir={SITE}", f"-Dpython.purelibdir={SITE}"]
    yield "sanitizers: set up", setup(ASAN, "-Db_sanitize=address,undefined", *folders), {}
    yield "sanitizers: build", ["meson", "install", "-C", str(ASAN), "--quiet"], {}
    yield "sanitizers: failing allocations of the C program", [*PYTHON, "tests.hostile.c_program", str(SITE)], {}
    asan = sanitized()
    leaks = {"ASAN_OPTIONS": "detect_leaks=1", "UBSAN_OPTIONS": asan["UBSAN_OPTIONS"]}
    yield "sanitizers: C tests", unit_tests(ASAN), leaks
    models = [str(ASAN / "tests/unit/engine_test_strange_models")]
    yield "sanitizers: a million strange model files", models, leaks | {"NX_STRANGE": "500000"}
    yield "sanitizers: f in every way, a GPT", [*PYTHON, "tests.hostile.sanitized"], asan
    damaged = [*PYTEST, "tests/front/test_serialization.py", "-k", "damaged or flipped or truncated or executed"]
    yield "sanitizers: damaged checkpoints", damaged, asan
    operators = [*PYTEST, "tests/ops/test_cases.py"]
    yield "sanitizers: operator suite", operators, asan

    tsan = {"TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1"}
    yield "thread sanitizer: set up", setup(TSAN, "-Db_sanitize=thread", "-Dc_args=-Wno-tsan"), {}
    yield "thread sanitizer: C tests", [*without_random_addresses(), *unit_tests(TSAN, *THREADED)], tsan

    cross = ["--cross-file", "tests/hostile/aarch64.ini", "-Dpython=false"]
    yield "aarch64: set up", setup(AARCH64, *cross), {}
    yield "aarch64: build", ["ninja", "-C", str(AARCH64)], {}
    yield "aarch64: C tests", unit_tests(AARCH64), {}
    yield "aarch64: the C program", [*PYTHON, "tests.hostile.aarch64", str(AARCH64)], {}


def main(wanted: list[str]) -> int:
    began = time.monotonic()
    failed: list[str] = []
    count = 0
    for title, command, environment in steps():
        if wanted and not any(text in title for text in wanted):
            continue
        print(f"== {title}", flush=True)
        start = time.monotonic()
        result = subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}).returncode
        print(f"== {title}: {'FAILED' if result else 'passed'}, {time.monotonic() - start:.0f} s\n", flush=True)
        count += 1
        failed += [title] if result else []
    minutes = (time.monotonic() - began) / 60
    outcome = f"FAILED: {'; '.join(failed)}" if failed else "all passed"
    print(f"check-hostile: {count} parts in {minutes:.0f} minutes, {outcome}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
