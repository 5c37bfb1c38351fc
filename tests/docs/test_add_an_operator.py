"""docs/add-an-operator.md, done in a copy of the tree: its entry makes a whole operator, and what it prints is so.

The copy is of what reads the entries. It is generated, compiled as far as that is cheap, and the new loop computes
PyTorch's numbers; `make` and the cases of step 4 are the same for this operator as for any other.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.gen.levels import write_levels

ROOT = Path(__file__).resolve().parent.parent.parent
TEXT = (ROOT / "docs/add-an-operator.md").read_text()
BLOCKS = re.findall(r"^```(console)?\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
ENTRY, MISTAKE = [block for kind, block in BLOCKS if not kind][:2]
NAME = re.search(r"^op (\w+)\(", ENTRY, re.MULTILINE)[1]


def steps() -> list[tuple[str, str]]:
    """The commands in their order, with what they print."""
    found: list[tuple[str, str]] = []
    for kind, block in BLOCKS:
        for line in block.splitlines(keepends=True) if kind else []:
            if line.startswith("$ "):
                found.append((line[2:].strip(), ""))
            else:
                found[-1] = (found[-1][0], found[-1][1] + line)
    return found


def run(command: str, folder: Path) -> str:
    command = re.sub(r"^python\b", sys.executable, command)
    done = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True, timeout=300)
    return done.stdout + done.stderr


def without_lines(text: str) -> str:
    """Where the entry stands depends on what stands before it."""
    return re.sub(r"point\.op:\d+", "point.op", text)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy, under git, without the entry, to which it is then added."""
    folder = tmp_path_factory.mktemp("tree")
    for name in ("ops", "gen", "plugins", "include"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "ops.txt", folder)
    (folder / ".gitignore").write_text("__pycache__\n")
    entries, surface = folder / "ops/element/point.op", folder / "ops.txt"
    assert entries.read_text().endswith("\n\n" + ENTRY), "the page shows another entry than the last one of point.op"
    entries.write_text(entries.read_text()[: -len("\n" + ENTRY)])
    lines = surface.read_text().splitlines(keepends=True)
    surface.write_text("".join(line for line in lines if not re.match(rf"aten::{NAME}\b", line)))
    who = "-c user.name=x -c user.email=x@x"
    run(f"git init -q && git add -A && git {who} -c commit.gpgsign=false commit -q -m before", folder)
    with entries.open("a") as file:
        file.write("\n" + ENTRY)
    return folder


def test_the_page_is_carried_out(tree: Path, tmp_path: Path) -> None:
    commands_print_what_the_page_says(tree)
    assert run(f"python -m gen.main generate --out {tmp_path}/gen", tree) == ""
    what_is_generated_knows_it(tree, tmp_path / "gen")
    if not shutil.which("gcc"):
        pytest.skip("gcc is not here: its loop is not compiled")
    its_loop_computes_pytorchs_numbers(tree, tmp_path)


def commands_print_what_the_page_says(tree: Path) -> None:
    for command, printed in steps():
        if command.startswith(("make", "python -m pytest")):
            continue
        got = run(command, tree)
        assert without_lines(got) == without_lines(printed), f"$ {command}\n{got}"
    assert run("git status --porcelain", tree).split() == ["M", "ops.txt", "M", "ops/element/point.op"]


def test_a_mistake_is_shown_where_it_stands(tree: Path, tmp_path: Path) -> None:
    shutil.copytree(tree / "ops", tmp_path / "ops")
    shutil.copytree(tree / "gen", tmp_path / "gen")
    shutil.copytree(tree / "include", tmp_path / "include")
    entry = (tmp_path / "ops/element/point.op").read_text()
    (tmp_path / "ops/element/point.op").write_text(entry.replace("g/(1 + exp2(other", "g/(1 + exp2(othr"))
    assert MISTAKE.splitlines()[1] in (tmp_path / "ops/element/point.op").read_text()
    got = run("python -m gen.main check", tmp_path)
    assert re.sub(r":\d+:", ":", got, count=1) == re.sub(r":\d+:", ":", MISTAKE, count=1)


def what_is_generated_knows_it(tree: Path, folder: Path) -> None:
    """Schema, formula, Python function, stub, cases, and the row of the device."""
    for name, expected in {
        "tables.c": f'"aten::{NAME}(Tensor self, Tensor other) -> Tensor"',
        "grad.c": f"nx__backward_{NAME}(",
        "functions.c": f'"torch.{NAME}"',
        "_C_ops.pyi": f"def {NAME}(",
    }.items():
        assert expected in (folder / name).read_text(), name
    plugin = "plugins/npu/gen_official.py plugins/npu/npu_native_functions.yaml"
    run(f"python {plugin} ops.txt {folder}/official.c", tree)
    assert f'"{NAME}",' in (folder / "official.c").read_text()


def its_loop_computes_pytorchs_numbers(tree: Path, tmp_path: Path) -> None:
    write_levels(tmp_path)
    folders = " ".join(f"-I{folder}" for folder in (ROOT, ROOT / "src", ROOT / "include", ROOT / "ops", tmp_path))
    warned = "-Wall -Wextra -Werror -Wno-unused-parameter -Wno-missing-field-initializers"
    flags = f"-std=gnu11 {folders} -DNX_LEVEL_NAME=base -DNX_FUSED=0 '-DNX_HALVES=\"base/half_bits.h\"'"
    for name in ("grad.c", "meta.c", "tables.c", "calls.c"):
        assert run(f"gcc {flags} {warned} -fsyntax-only {tmp_path}/gen/{name}", tree) == ""
    library, loops = tmp_path / "loops.so", f"{tmp_path}/gen/loops_point_float.c"
    level = "-w -O0 -shared -fPIC"
    assert run(f"gcc {flags} {level} -o {library} {loops} {ROOT}/src/kernel/bounds.c -lm", tree) == ""
    torch.manual_seed(0)
    x, y = torch.randn(2, 77)
    x[:3], y[:3] = torch.tensor([1.0, float("inf"), float("nan")]), torch.tensor([1.0, float("inf"), 0.0])
    out = torch.empty(77)
    pointers = (ctypes.c_void_p * 3)(out.data_ptr(), x.data_ptr(), y.data_ptr())
    loop = getattr(ctypes.CDLL(str(library), mode=os.RTLD_LAZY), f"nx__loop_{NAME}_f32_base")
    loop(pointers, (ctypes.c_int64 * 3)(4, 4, 4), ctypes.c_int64(77), None)
    torch.testing.assert_close(out, getattr(torch, NAME)(x, y), equal_nan=True)
