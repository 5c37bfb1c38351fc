"""timm as it is on PyPI: the smallest model of every family gives PyTorch's numbers, forward and backward, from the
same seed. `make test-packages` installs it."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.packages.timm_models import FAMILIES

PROGRAM = Path(__file__).with_name("timm_models.py")
FOLDER = importlib.util.find_spec("timm")
if FOLDER is None:
    pytest.skip("timm is not installed: make test-packages installs it", allow_module_level=True)


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    """{side: {family: what the program printed}}"""
    found: dict[str, Any] = {}
    for side, command in (("PyTorch", []), ("Narthex", ["-m", "narthex", "run"])):
        command = [sys.executable, *command, str(PROGRAM), *FAMILIES]
        run = subprocess.run(command, capture_output=True, text=True, timeout=3600)
        assert run.returncode == 0, run.stderr[-3000:]
        found[side] = {}
        for line in run.stdout.splitlines():
            if line.startswith("{"):
                found[side].update(json.loads(line))
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_numbers(results: dict[str, Any], family: str) -> None:
    mine, theirs = results["Narthex"][family], results["PyTorch"][family]
    assert "error" not in theirs, theirs["error"]
    assert "error" not in mine, mine["error"]
    assert mine["shape"] == theirs["shape"]
    assert mine["sum"] == pytest.approx(theirs["sum"], rel=2e-5)
    assert mine["gradients"] == pytest.approx(theirs["gradients"], rel=1e-3, abs=1e-6 * max(theirs["gradients"]))


def test_no_family_is_missing() -> None:
    """What timm.models imports whole, but the modules of parts."""
    text = (Path(FOLDER.submodule_search_locations[0]) / "models" / "__init__.py").read_text()
    modules = {line.split()[1].lstrip(".") for line in text.splitlines() if line.endswith(" import *")}
    assert modules == FAMILIES.keys()
