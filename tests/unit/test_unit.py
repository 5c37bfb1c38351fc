"""The C unit tests, a program each: what `make build/unit/done` has built is run, and says what failed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
BUILT = HERE.parent.parent / "build" / "unit" / "tests" / "unit"
SOURCES = sorted(HERE.rglob("test_*.c"))


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: str(source.relative_to(HERE)))
def test_program(source: Path) -> None:
    program = BUILT / "_".join(source.relative_to(HERE).with_suffix("").parts)
    done = subprocess.run([program], capture_output=True, text=True, errors="replace", timeout=900, check=False)
    said = [
        line for line in (done.stdout + done.stderr).splitlines() if "[ RUN " not in line and "[       OK ]" not in line
    ]
    assert done.returncode == 0, "\n".join(said[-40:])
