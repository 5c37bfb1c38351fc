"""The documents tell the truth: files and functions that they name exist, and their commands run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gen.main import load

ROOT = Path(__file__).resolve().parent.parent.parent
DOCUMENTS = sorted([*ROOT.glob("docs/*.md"), ROOT / "README.md"])
TOPS = ("ops", "gen", "src", "py", "python", "plugins", "include", "tests", "docs", "examples", "bench", "tools")
SELF = {"make test", "make check-hostile", "make bench", "make demo", "make"}  # run by this test's caller, or by hand


def code_of(document: Path) -> list[str]:
    """What stands in backticks, outside of blocks."""
    text = re.sub(r"^```.*?^```", "", document.read_text(), flags=re.DOTALL | re.MULTILINE)
    return re.findall(r"`([^`\n]+)`", text)


def source_text() -> str:
    files = [
        path
        for top in ("src", "py", "ops", "plugins", "include", "python")
        for path in (ROOT / top).rglob("*")
        if path.suffix in (".c", ".h", ".py")
    ]
    return "\n".join(path.read_text() for path in files)


def generated_names() -> list[str]:
    """Files and functions that the build writes."""
    names = re.findall(r"'([\w.]+)'", (ROOT / "gen/meson.build").read_text())
    return [f"gen/{name}" for name in names] + ["nx_logaddexp2"]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_named_files_exist(document: Path) -> None:
    names = [
        code
        for code in code_of(document)
        if re.fullmatch(r"[\w./-]+", code) and code.split("/")[0] in TOPS and "/" in code
    ]
    missing = [name for name in names if not (ROOT / name).exists() and name not in generated_names()]
    assert not missing, f"{document.name} names {missing}"


def test_named_tests_exist() -> None:
    missing = []
    for document in DOCUMENTS:
        for code in code_of(document):
            file, _, name = code.partition("::")
            if (
                name
                and file.endswith(".py")
                and not re.search(rf"^def {name}\(", (ROOT / file).read_text(), re.MULTILINE)
            ):
                missing.append(f"{document.name}: {code}")
    assert not missing, missing


def test_named_functions_exist() -> None:
    source = source_text()
    missing = []
    for document in DOCUMENTS:
        for code in code_of(document):
            match = re.fullmatch(r"([a-z_]\w*)\(\)", code)
            if match and not re.search(rf"\b{match[1]}\(", source) and match[1] not in generated_names():
                missing.append(f"{document.name}: {code}")
    assert not missing, missing


# docs/add-an-operator.md adds an entry first: test_add_an_operator.py does what it says in a copy of the tree.
COMMANDS = [
    (document.name, line[2:])
    for document in DOCUMENTS
    if document.name != "add-an-operator.md"
    for block in re.findall(r"^```console\n(.*?)^```", document.read_text(), re.DOTALL | re.MULTILINE)
    for line in block.splitlines()
    if line.startswith("$ ")
]


@pytest.mark.parametrize(("document", "command"), [pair for pair in dict.fromkeys(COMMANDS) if pair[1] not in SELF])
def test_commands_run(document: str, command: str) -> None:
    environment = {**os.environ, "PATH": f"{ROOT}/.venv/bin:{os.environ['PATH']}"}
    run = subprocess.run(command, shell=True, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, f"{document}: $ {command}\n{run.stdout[-2000:]}\n{run.stderr[-2000:]}"


def blocks(document: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", document.read_text(), re.DOTALL | re.MULTILINE)


# Design documents show what the language looks like; their blocks are no programs.
PROGRAMS = [
    path for path in DOCUMENTS if path.name not in ("architecture.md", "add-an-operator.md", "operator-language.md")
]


@pytest.mark.parametrize("document", [path for path in PROGRAMS if blocks(path, "python")], ids=lambda path: path.name)
def test_python_runs(document: Path) -> None:
    """The blocks of a document, one after the other, in one process."""
    code = "\n".join(blocks(document, "python"))
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, f"{document.name}\n{run.stderr[-2000:]}"


@pytest.mark.parametrize("document", [path for path in PROGRAMS if blocks(path, "c")], ids=lambda path: path.name)
def test_c_runs(document: Path, tmp_path: Path) -> None:
    from narthex import include_dir, lib_dir

    for number, code in enumerate(blocks(document, "c")):
        source, program = tmp_path / f"{number}.c", tmp_path / str(number)
        source.write_text(code)
        linked = [f"-I{include_dir()}", f"-L{lib_dir()}", f"-Wl,-rpath,{lib_dir()}", "-lnarthex"]
        subprocess.run(["cc", "-Wall", "-Wextra", "-Werror", source, *linked, "-o", program], check=True)
        run = subprocess.run([program], capture_output=True, text=True, timeout=60)
        assert run.returncode == 0 and run.stdout == "4\n", f"{document.name}: {run.stdout}{run.stderr}"


def test_operators_are_counted(record_property):
    """docs/operators.md: how many entries are expressions, say their elements, are made of others, have a kernel of
    their own; and how many operators they stand for."""
    world = load(ROOT / "ops")
    entries = world.entries

    def count(entries, *words):
        return sum(any(entry.one(word) for word in words) for entry in entries)

    expressions, composed = count(entries, "point", "reduce", "view"), count(entries, "as")
    elements, kernels = count(entries, "elements"), count(entries, "kernel")
    functions = {row.value["name"] for entry in entries for row in entry.all("kernel")}
    text = " ".join((ROOT / "docs" / "operators.md").read_text().split())
    said = (
        f"Of {len(entries)} entries {expressions} are an expression of an element, a fold or a view, {elements} say "
        f"what lies in their result, {composed} are made of other operators, and {kernels} name kernels: "
        f"{len(functions)} C functions"
    )
    share = (
        f"That is {100 * kernels / len(entries):.1f} % of the entries, with "
        f"{100 * len(functions) / len(entries):.1f} functions to a hundred"
    )
    of_all, said_by_row = (count(world.operators, word) for word in ("kernel", "elements"))
    operators = (
        f"Counted by operators {of_all} of {len(world.operators)} have kernels, "
        f"{100 * of_all / len(world.operators):.1f} %"
    )
    record_property("kernels", f"{said}. {operators}")
    assert said in text, said
    assert share in text, share
    assert operators in text, operators
    assert f"are a row `elements`, {said_by_row} operators" in text, said_by_row
    assert kernels / len(entries) < 0.229 and of_all / len(world.operators) < 0.229, "the share before the width came"
