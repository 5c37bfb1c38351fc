"""The command line, and Narthex in the place of torch."""

import os
import subprocess
import sys

import pytest


def narthex(*arguments: str, cwd=None) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "narthex", *arguments], capture_output=True, text=True, cwd=cwd)


def test_help_version_errors():
    assert narthex().stdout == narthex("--help").stdout and "narthex run SCRIPT" in narthex("--help").stdout
    assert narthex("--version").stdout.startswith("narthex 0.")
    wrong = narthex("rum")
    assert wrong.returncode == 2 and "no such command" in wrong.stderr
    absent = narthex("run", "nowhere.py")
    assert absent.returncode == 2 and "nowhere.py" in absent.stderr and "Traceback" not in absent.stderr


def test_flags_and_op():
    flags = narthex("flags").stdout
    assert "NARTHEX_REF" in flags and "NARTHEX_PLUGINS" in flags
    assert "aten::add.Tensor" in narthex("op").stdout.split()
    assert "Tensor self, Tensor other" in narthex("op", "add.Tensor").stdout
    assert len(narthex("op", "add").stdout.splitlines()) > 2
    assert "aten::relu" in narthex("op", "relo").stderr
    wrong = narthex("op", "add.Nothing")
    assert wrong.returncode == 2 and "aten::add.Tensor" in wrong.stderr


def test_a_level_that_is_not_there_is_said():
    program = "import narthex; print(narthex.ones(3).exp().sum().item())"
    for level, said in (("base", ""), ("v9", "NARTHEX_LEVEL=v9: this processor has base")):
        environment = {**os.environ, "NARTHEX_LEVEL": level}
        run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
        assert run.stdout.startswith("8.15") and said in run.stderr and bool(said) == bool(run.stderr)


PROGRAM = """
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.modules.module import Module
import narthex
assert torch is narthex and nn is narthex.nn and torch.nn.Module is Module is nn.Module
assert sys.modules["torch.nn.functional"] is F is narthex.nn.functional
assert torch.nn.__spec__.name == "narthex.nn"
try:
    import torch.fft_of_tomorrow
except ModuleNotFoundError as error:
    print(error)
try:
    torch.cuda_of_tomorrow
except AttributeError as error:
    print(error)
print(__name__, sys.argv[1:], __file__ == sys.argv[0])
import helper
"""


def test_run(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "helper.py").write_text("import torch\nprint('helper', torch.__package__, torch.__name__)\n")
    run = narthex("run", str(tmp_path / "program.py"), "--epochs", "3")
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert lines[0] == "No module named 'torch.fft_of_tomorrow': Narthex does not have it"
    assert lines[1].startswith("module 'torch' has no attribute 'cuda_of_tomorrow'")
    assert lines[2:] == ["__main__ ['--epochs', '3'] True", "helper narthex torch"]
    assert run.stderr == "narthex run: asked for and not there: torch.fft_of_tomorrow, torch.cuda_of_tomorrow\n"
    assert narthex("run", "-m", "helper", cwd=tmp_path).stdout == "helper narthex torch\n"


def test_exit_status_and_traceback(tmp_path):
    (tmp_path / "leaves.py").write_text("import sys\nsys.exit(7)\n")
    assert narthex("run", str(tmp_path / "leaves.py")).returncode == 7
    (tmp_path / "fails.py").write_text("def inner():\n    raise ValueError('mine')\ninner()\n")
    run = narthex("run", str(tmp_path / "fails.py"))
    assert run.returncode == 1 and run.stderr.endswith("ValueError: mine\n")
    assert "fails.py" in run.stderr.splitlines()[1] and "narthex/cli.py" not in run.stderr


def test_the_traceback_is_the_programs(tmp_path):
    """From the installed command, too, whose own frames stand before those of the package."""
    (tmp_path / "narthex").write_text("from narthex.cli import main\nraise SystemExit(main())\n")
    (tmp_path / "fails.py").write_text("import torch\n\ntorch.ones(3).nothing_of_the_kind()\n")
    (tmp_path / "broken.py").write_text("x = (\n")

    def error(*arguments: str) -> str:
        command = [sys.executable, str(tmp_path / "narthex"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path).stderr

    for way in (["run", "fails.py"], ["run", "-m", "fails"], ["explain", "fails.py"]):
        first, where, *_, last, asked = error(*way).splitlines()
        assert first.startswith("Traceback") and where.endswith('fails.py", line 3, in <module>'), way
        assert last == "AttributeError: 'Tensor' object has no attribute 'nothing_of_the_kind'"
        assert asked == "narthex run: asked for and not there: torch.Tensor.nothing_of_the_kind"
    assert error("run", "broken.py").startswith(f'  File "{tmp_path}/broken.py", line 1')
    assert error("run", "-m", "nowhere") == "narthex run: No module named nowhere\n"


@pytest.mark.parametrize("name", ["torch_npu", "torchair", "torch_npu.dynamo.torchair"])
def test_companions(name, tmp_path):
    text = (
        f"import {name}\nimport torch, torchair\nassert torch_npu.dynamo.torchair is torchair\n"
        if "." in name
        else f"import {name}\n"
    )
    (tmp_path / "program.py").write_text(text)
    run = narthex("run", str(tmp_path / "program.py"))
    assert run.returncode == 0, run.stderr


def test_the_class_of_tensors_is_torchs(tmp_path):
    """Packages tell libraries of arrays apart by the module of their classes."""
    program = tmp_path / "p.py"
    program.write_text("import torch\nprint(type(torch.ones(1)), torch.Tensor.__module__)\n")
    assert narthex("run", str(program)).stdout == "<class 'torch.Tensor'> torch\n"


def test_who_asks_for_an_accelerator_is_told_of_none(tmp_path):
    """A package that asks whether torch_npu is installed is told no until the program imports it."""
    program = tmp_path / "program.py"
    program.write_text(
        "import importlib.util, torch\n"
        "print(importlib.util.find_spec('torch_npu'), torch.accelerator.is_available())\n"
        "import torch_npu\n"
        "print(importlib.util.find_spec('torch_npu').name, torch.accelerator.is_available())\n"
        "print(torch.accelerator.current_accelerator(), importlib.util.find_spec('torch') is not None)\n"
    )
    run = narthex("run", str(program))
    assert run.stdout.splitlines() == ["None False", "narthex.compat.torch_npu True", "npu True"], run.stderr
