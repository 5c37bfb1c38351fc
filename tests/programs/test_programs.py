"""Whole programs under PyTorch and under `narthex run`: the same lines."""

import functools
import os
import re
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


NUMBER = re.compile(r"-?\d+\.\d+(?:e[-+]?\d+)?")
WHOLE = sorted((HERE / "whole").glob("*.py"))


@functools.cache
def wanted(program):
    return lines([program], OMP_NUM_THREADS="1")


@pytest.mark.parametrize("options", [(), ("--compile",)], ids=["eager", "compiled"])
@pytest.mark.parametrize("program", WHOLE, ids=lambda path: path.stem)
def test_whole_programs(program, options):
    """The same text, numbers to rounding; the other side is always eager."""
    theirs, ours = wanted(program), lines(["-m", "narthex", "run", program], *options)
    assert [NUMBER.sub("#", line) for line in ours] == [NUMBER.sub("#", line) for line in theirs]
    for mine, line in zip(ours, theirs):
        numbers = [[float(x) for x in NUMBER.findall(text)] for text in (mine, line)]
        assert numbers[0] == pytest.approx(numbers[1], rel=1e-4, abs=2e-5), line
