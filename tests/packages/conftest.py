"""At the end of a run: how many architectures, families, programs and public packages gave PyTorch's numbers, and how
many of PyTorch's public names are there."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from tests.conftest import tell_counted

COUNTED = {
    "test_transformers.py::test_numbers_and_text": ("architectures of transformers", "give PyTorch's numbers"),
    "test_timm.py::test_numbers": ("families of timm", "give PyTorch's numbers"),
    "test_programs.py::test_program": ("programs of other packages", "give PyTorch's numbers"),
}


def pytest_terminal_summary(terminalreporter: Any) -> None:
    stats = terminalreporter.stats
    tell_counted(terminalreporter, COUNTED)
    if packages := packages_of(stats.get("passed", [])):
        terminalreporter.write_line(f"packages: {len(packages)} ({', '.join(sorted(packages))})")
    if packages:
        tell_names(terminalreporter)


def packages_of(reports: list[Any]) -> set[str]:
    """What the programs that passed import, Python's own modules and torch aside, and the packages of other tests."""
    found = set()
    for report in reports:
        file, _, case = report.nodeid.partition("::")
        of_file = re.search(r"test_(timm|transformers|tensorboard)\.py$", file)
        program = Path(__file__).parent / "programs" / f"{case.partition('[')[2].rstrip(']')}.py"
        if of_file:
            found.add(of_file[1])
        elif program.exists():
            found.update(re.findall(r"^\s*(?:import|from) (\w+)", program.read_text(), re.MULTILINE))
    return {name for name in found if name not in sys.stdlib_module_names and not name.startswith(("_", "torch_npu"))
            and name not in ("torch", "numpy", "narthex")}  # fmt: skip


def tell_names(terminalreporter: Any) -> None:
    """PyTorch's public names that are there, of all (docs/names.md lists the rest)."""
    from tests import names

    gone = sum(len(names.absent(space)) for space in names.SPACES)
    there = sum(len(names.public(space)) for space in names.SPACES)
    terminalreporter.write_line(f"public names of PyTorch's: {there - gone} of {there} are there")
