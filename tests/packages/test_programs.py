"""Programs of public packages as they are on PyPI, one a file in programs/, and the examples that use such packages:
what they print under PyTorch, numbers to rounding, they print under `narthex run`. `make test-packages` installs what
they need."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs import test_examples as examples

HERE = Path(__file__).parent
EXAMPLES = [HERE.parent.parent / f"examples/{name}.py" for name in ("finetune", "search")]
PROGRAMS = sorted((HERE / "programs").glob("*.py")) + EXAMPLES
NUMBER = re.compile(r"-?\d+\.\d+(?:e[-+]?\d+)?|-?\d+e[-+]?\d+")
NEEDS = re.compile(r"^(?:import|from) (\w+)", re.MULTILINE)
APART = Path(sys.prefix) / "apart"  # torchvision and what needs it: others must not see it beside this PyTorch


def run(*command: str, folder: Path, apart: bool = False) -> str:
    """What a program prints; it may leave its own files in the folder."""
    environment = {**os.environ, "PYTHONPATH": str(APART)} if apart else None
    ran = [sys.executable, *command]
    result = subprocess.run(ran, capture_output=True, text=True, timeout=600, env=environment, cwd=folder)
    assert result.returncode == 0, result.stderr[-3000:]
    return result.stdout


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_program(program: Path, tmp_path: Path) -> None:
    needs = [name for name in NEEDS.findall(program.read_text()) if not (HERE / f"{name}.py").exists()]
    apart = any((APART / name).is_dir() for name in needs)
    missing = [name for name in needs if importlib.util.find_spec(name) is None and not (APART / name).is_dir()]
    if missing:
        pytest.skip(f"{', '.join(missing)} is not installed: make test-packages installs it")
    ways: list[list[str]] = [[], ["-m", "narthex", "run"]]
    theirs, mine = (run(*way, str(program), folder=tmp_path, apart=apart) for way in ways)
    assert theirs.strip() and NUMBER.sub("#", mine) == NUMBER.sub("#", theirs)
    numbers = [[float(x) for x in NUMBER.findall(text)] for text in (mine, theirs)]
    assert numbers[0] == pytest.approx(numbers[1], rel=2e-4, abs=2e-5)


def test_voice(tmp_path: Path) -> None:
    if importlib.util.find_spec("silero_vad") is None:
        pytest.skip("silero_vad is not installed: make test-packages installs it")
    theirs, mine = (examples.run(runner, "voice", tmp_path / runner) for runner in ("torch", "narthex"))
    kept = ("speech from", "the whole")
    said = [[line for line in text.splitlines() if line.startswith(kept)] for text in (theirs, mine)]
    assert said[0] == said[1] and len(said[0]) == 3
    assert (tmp_path / "narthex/voice.png").stat().st_size > 5000
