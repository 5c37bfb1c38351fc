"""What the tests say at the end of a run beside their outcomes."""

from __future__ import annotations

import os
import platform
from collections import Counter
from typing import Any

os.environ.setdefault("NARTHEX_CACHE", "0")  # what one test measures is not known to the next

WAYS = ("value", "gradient", "second", "forward", "fake", "compiled")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    reports = [
        report for of in terminalreporter.stats.values() for report in of if getattr(report, "when", "") == "call"
    ]
    tell_survey(terminalreporter, reports)
    tell_modules(terminalreporter, reports)
    tell_op_db(terminalreporter, reports)
    tell_op_db_errors(terminalreporter, reports)
    tell_names(terminalreporter, reports)
    tell_known_names(terminalreporter, reports)
    tell_kernels(terminalreporter, reports)
    tell_programs(terminalreporter)
    tell_versions(terminalreporter, reports)


PROGRAMS = {
    "programs/test_programs.py::test_whole_programs": ("whole programs, eager, compiled", "print what PyTorch prints"),
    "programs/test_networks.py::test_losses": ("networks, eager, compiled, on npu:0", "have PyTorch's losses"),
    "programs/test_examples.py::test_an_example": ("examples", "give what PyTorch gives"),
    "programs/test_vision.py": ("networks for images, eager and compiled", "train as PyTorch's"),
    "capture/test_pieces.py": ("programs whose graph ends anywhere, called otherwise", "give eager's results"),
}


def tell_counted(terminalreporter: Any, tests: dict[str, tuple[str, str]]) -> bool:
    """For each part of a test's name that is counted, (what they are, what they do): how many did, if any ran."""
    stats, any_ran = terminalreporter.stats, False
    for test, (what, do) in tests.items():
        good, bad = (
            sum(test in report.nodeid for outcome in outcomes for report in stats.get(outcome, []))
            for outcomes in (["passed"], ["failed", "error", "skipped"])
        )
        if good + bad:
            terminalreporter.write_line(f"{what}: {good} of {good + bad} {do}")
        any_ran |= good + bad > 0
    return any_ran


def tell_programs(terminalreporter: Any) -> None:
    """Programs that run as under PyTorch."""
    tell_counted(terminalreporter, PROGRAMS)


def tell_versions(terminalreporter: Any, reports: list[Any]) -> None:
    """Under which versions of CPython what ran (tests/capture/test_versions.py)."""
    others = {}  # a test's last word counts
    for report in reports:
        others.update((report.nodeid, value) for name, value in report.user_properties if name == "versions")
    if others:
        line = "; ".join([f"{platform.python_version()} whole", *others.values()])
        terminalreporter.write_line(f"versions of CPython: {line}")


def tell_known_names(terminalreporter: Any, reports: list[Any]) -> None:
    """Names of the compiler's that users meet (tests/front/test_known_names.py)."""
    rows = [r.outcome for r in reports if any(name == "known_names" for name, _ in r.user_properties)]
    if rows:
        terminalreporter.section("names of the compiler's that users meet")
        terminalreporter.write_line(f"names that work when called: {rows.count('passed')} of {len(rows)}")


def tell_kernels(terminalreporter: Any, reports: list[Any]) -> None:
    """How many operators have a kernel written by hand (tests/docs/test_documents.py)."""
    said = [value for report in reports for name, value in report.user_properties if name == "kernels"]
    if said:
        terminalreporter.section("operators")
        terminalreporter.write_line(said[0])


def tell_names(terminalreporter: Any, reports: list[Any]) -> None:
    """PyTorch's public names (tests/front/test_names.py); docs/names.md has those that are not there."""
    rows = [value for report in reports for name, value in report.user_properties if name == "names"]
    if not rows:
        return
    terminalreporter.section("public names of PyTorch's that are there")
    terminalreporter.write_line(f"{sum(n for _, n, _ in rows)} of {sum(n for _, _, n in rows)}; not all of")
    shown = [f"{space} {here} of {there}" for space, here, there in sorted(rows) if here < there]
    terminalreporter.write_line(", ".join(shown))


def tell_op_db_errors(terminalreporter: Any, reports: list[Any]) -> None:
    """PyTorch's own bad calls (tests/ops/test_op_db_errors.py, where the reasons stand)."""
    rows = [value for report in reports for name, value in report.user_properties if name == "op_db_errors"]
    if rows:
        calls, different = (sum(column) for column in zip(*rows, strict=True))
        terminalreporter.section("op_db: bad calls of PyTorch's")
        same = calls - different
        terminalreporter.write_line(f"{calls} of {len(rows)} entries: {same} raise PyTorch's type and text")


def tell_survey(terminalreporter: Any, reports: list[Any]) -> None:
    """Idioms of programs (tests/capture/test_survey.py): how many are one graph, and why others end it."""
    rows = [value for report in reports for name, value in report.user_properties if name == "survey"]
    if not rows:
        return
    terminalreporter.section("idioms that are one graph with fullgraph=True")
    terminalreporter.write_line(f"{sum(not reason for _, reason in rows)} of {len(rows)}")
    for name, reason in sorted(rows, key=lambda row: row[1]):
        if reason:
            terminalreporter.write_line(f"  {name}: {reason}")


def tell_modules(terminalreporter: Any, reports: list[Any]) -> None:
    """Modules of public packages (tests/capture/test_modules.py): how many are one graph, and why others are not."""
    rows = [row for report in reports for name, value in report.user_properties if name == "modules" for row in value]
    if not rows:
        return
    fields, good = (Counter(field for field, _, error in rows if not (error and kept)) for kept in (False, True))
    terminalreporter.section("modules that are one graph with fullgraph=True")
    each = ", ".join(f"{field} {good[field]} of {n}" for field, n in fields.items())
    terminalreporter.write_line(f"{good.total()} of {len(rows)}: {each}")
    for _, name, error in rows:
        reason = error.rpartition("(fullgraph=True): ")[2].partition(" at /")[0]
        if reason:
            terminalreporter.write_line(f"  {name}: {reason}")


def tell_op_db(terminalreporter: Any, reports: list[Any]) -> None:
    """PyTorch's own samples (tests/ops/test_op_db.py): how many operators pass each way, and why others do not."""
    rows = sorted(value for report in reports for name, value in report.user_properties if name == "op_db")
    if not rows:
        return
    counts: Counter[str | bool] = Counter()
    for _, ways, _, _ in rows:
        counts.update(way for way, good in ways.items() if good)
        if all(ways.values()):
            counts["gradient" in ways] += 1
    terminalreporter.section("op_db: entries of PyTorch's that pass")
    each = ", ".join(f"{way} {counts[way]}" for way in WAYS)
    for n, absent in (value for report in reports for name, value in report.user_properties if name == "op_db_absent"):
        gone = ", ".join(f"{name} ({reason})" for name, reason in sorted(absent.items()))
        terminalreporter.write_line(f"{len(absent)} of {n} are not there: {gone}")
    terminalreporter.write_line(f"of {len(rows)}: {each}")
    terminalreporter.write_line(f"all ways: {counts[True]}; all of those without a gradient: {counts[False]}")
    refused = [f"{name} ({' '.join(ways)})" for name, _, _, ways in rows if ways]
    terminalreporter.write_line(f"{len(refused)} in part by a refusal that is PyTorch's too: {', '.join(refused)}")
    for name, ways, reason, _ in rows:
        if not all(ways.values()):
            bad = " ".join(way for way in WAYS if not ways.get(way, True))
            terminalreporter.write_line(f"  {name}: {bad}: {reason or 'unexpected'}")
