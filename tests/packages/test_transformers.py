"""transformers as it is on PyPI: PyTorch's numbers and text from the same seed. `make test-packages` installs it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packages.models import MODELS, MORE

PROGRAM = Path(__file__).with_name("models.py")
pytest.importorskip("transformers", reason="transformers is not installed: make test-packages installs it")


@pytest.fixture(scope="module")
def results():
    """{side: {model: what the program printed}}"""
    found = {}
    for side, command in (("PyTorch", []), ("Narthex", ["-m", "narthex", "run"])):
        run = subprocess.run([sys.executable, *command, str(PROGRAM)], capture_output=True, text=True, timeout=900)
        assert run.returncode == 0, run.stderr[-3000:]
        found[side] = {}
        for line in run.stdout.splitlines():
            if line.startswith("{"):
                found[side].update(json.loads(line))
    return found


@pytest.mark.parametrize("name", [*MODELS, *MORE])
def test_numbers_and_text(results, name):
    mine, theirs = results["Narthex"][name], results["PyTorch"][name]
    assert (mine["shape"], mine["text"]) == (theirs["shape"], theirs["text"])
    assert mine["sum"] == pytest.approx(theirs["sum"], rel=1e-5)
    assert mine["grads"] == pytest.approx(theirs["grads"], rel=1e-4)
