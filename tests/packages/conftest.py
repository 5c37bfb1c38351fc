"""At the end of a run: how many architectures, families and programs of public packages gave PyTorch's numbers."""

from __future__ import annotations

from typing import Any

COUNTED = {
    "test_transformers.py::test_numbers_and_text": ("architectures of transformers", "give PyTorch's numbers"),
    "test_transformers.py::test_one_graph": ("architectures of transformers", "are as expected with fullgraph=True"),
    "test_timm.py::test_numbers": ("families of timm", "give PyTorch's numbers"),
    "test_programs.py::test_program": ("programs of other packages", "give PyTorch's numbers"),
}


def pytest_terminal_summary(terminalreporter: Any) -> None:
    stats = terminalreporter.stats
    for test, (what, do) in COUNTED.items():
        good, bad = (
            sum(test in report.nodeid for outcome in outcomes for report in stats.get(outcome, []))
            for outcomes in (["passed"], ["failed", "error", "skipped"])
        )
        if good + bad:
            terminalreporter.write_line(f"{what}: {good} of {good + bad} {do}")
