"""Whole programs under PyTorch and under `narthex run`: the same lines."""

import os
import subprocess
import sys
from difflib import unified_diff
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def lines(command, *arguments, **environment):
    run = subprocess.run(
        [sys.executable, *command, *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )
    assert run.returncode == 0, run.stderr[-3000:]
    return run.stdout.splitlines()


@pytest.mark.parametrize("options", [(), ("--compile",)], ids=["eager", "compiled"])
def test_train_gpt(options, tmp_path):
    program = HERE / "train_gpt.py"
    theirs = lines([program], tmp_path, *options, BACKEND="eager", OMP_NUM_THREADS="1")
    ours = lines(["-m", "narthex", "run", program], tmp_path, *options)
    assert len(theirs) > 100 and ours == theirs, "\n".join(
        unified_diff(theirs, ours, "PyTorch", "Narthex", lineterm="")
    )
