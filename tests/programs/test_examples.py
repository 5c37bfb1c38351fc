"""The programs of examples/ as their users run them: they print what they print under PyTorch, numbers to rounding,
eagerly and compiled, and draw; training of digits.py resumes, and C reads digits with what it trained. gpt.py has
test_gpt.py."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"
NUMBER = re.compile(r"-?\d+\.\d+")
SHORT = {
    "digits": (["--epochs", "2"], ["losses.png", "confusion.png"]),
    "ode": (["--steps", "30"], ["spiral.png"]),
    "pole": (["--rounds", "10"], ["pole.png"]),
    "series": (["--steps", "40", "--months", "240"], ["series.png"]),
    "vae": (["--epochs", "8"], ["bound.png", "walk.png"]),
}


def run(runner: str, name: str, out: Path, *options: str) -> str:
    """What examples/NAME.py prints, without where it drew."""
    python = [sys.executable] if runner == "torch" else [sys.executable, "-m", "narthex", "run"]
    command = [*python, str(EXAMPLES / f"{name}.py"), "--out", str(out), *options]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr[-3000:]
    return "\n".join(line for line in done.stdout.splitlines() if not line.startswith("drawn: "))


def said(text: str) -> list[str]:
    """The lines of words and numbers; the drawings between them may differ by a dot."""
    return [line for line in text.splitlines() if re.match(r"(epoch|round|step|foretold|the whole)", line)]


@pytest.mark.parametrize("name", SHORT)
def test_an_example_gives_what_pytorch_gives(name: str, tmp_path: Path) -> None:
    options, drawings = SHORT[name]
    expected = said(run("torch", name, tmp_path / "torch", *options))
    ways = [[], ["--compile"]] if name in ("digits", "ode", "vae") else [[]]
    assert expected
    for way in ways:
        out = tmp_path / f"narthex{len(way)}"
        found = said(run("narthex", name, out, *options, *way))
        assert [NUMBER.sub("#", line) for line in found] == [NUMBER.sub("#", line) for line in expected]
        numbers = [[float(x) for line in lines for x in NUMBER.findall(line)] for lines in (found, expected)]
        shares = [x for line in expected for x in re.findall(r"([\d.]+)%", line)]
        for x, y in zip(*numbers, strict=True):  # a picture of 360 that lies on the border may be read otherwise: 0.3 %
            assert x == pytest.approx(y, rel=2e-3, abs=0.301 if str(y) in shares else 1e-4)
        assert all((out / drawing).stat().st_size > 5000 for drawing in drawings)


def test_training_of_digits_resumes(tmp_path: Path) -> None:
    whole = said(run("narthex", "digits", tmp_path / "whole", "--epochs", "3"))
    # Stopped after its second epoch of three, by a checkpoint that says so.
    state = torch.load(tmp_path / "whole/checkpoint.pt")
    assert state["epoch"] == 3 and len(state["losses"]) == 3
    code = (
        "import runpy, sys, torch\n"
        "save = torch.save\n"
        "def stop(state, path):\n"
        "    save(state, path)\n"
        "    if state['epoch'] == 2: raise SystemExit\n"
        "torch.save = stop\n"
        f"sys.argv = ['digits.py', '--epochs', '3', '--out', {str(tmp_path / 'parts')!r}]\n"
        f"sys.path.insert(0, {str(EXAMPLES)!r})\n"
        f"runpy.run_path({str(EXAMPLES / 'digits.py')!r}, run_name='__main__')\n"
    )
    stopped = tmp_path / "stopped.py"
    stopped.write_text(code)
    subprocess.run([sys.executable, "-m", "narthex", "run", str(stopped)], check=True, capture_output=True)
    assert torch.load(tmp_path / "parts/checkpoint.pt")["epoch"] == 2
    assert said(run("narthex", "digits", tmp_path / "parts", "--epochs", "3", "--resume")) == whole[2:]


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_digits_are_read_from_c(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import narthex

    monkeypatch.syspath_prepend(str(EXAMPLES))
    digits = importlib.import_module("digits")
    model, program, lib = tmp_path / "digits.nxm", tmp_path / "digits", narthex.lib_dir()
    run("narthex", "digits", tmp_path, "--epochs", "2", "--export", str(model))
    compiler, include = ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror"], f"-I{narthex.include_dir()}"
    linked = [f"-L{lib}", "-lnarthex", "-lm", f"-Wl,-rpath,{lib}"]
    subprocess.run([*compiler, EXAMPLES / "c/digits.c", include, *linked, "-o", program], check=True)
    reader = digits.Reader()
    reader.load_state_dict(torch.load(tmp_path / "checkpoint.pt")["model"])
    pictures = digits.load()[1].tensors[0][:5]
    with torch.no_grad():
        expected = 100 * reader.eval()(pictures).softmax(1)
    for picture, chances in zip(pictures, expected.tolist()):
        given = " ".join(f"{16 * x:g}" for x in picture.flatten().tolist())
        done = subprocess.run([program, model], input=given, capture_output=True, text=True, check=True)
        printed = [float(line.split()[1].rstrip("%")) for line in done.stdout.splitlines()[8:]]
        assert printed == pytest.approx(chances, abs=0.06)
    wrong = subprocess.run([program, model], input="1 2 17", capture_output=True, text=True)
    assert wrong.returncode == 1 and "number 3 is none" in wrong.stderr
