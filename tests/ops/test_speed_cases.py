"""The speed cases: the hot operators of bench/cases.txt are the same in both sizes and run; so do the light calls of
bench/calls.txt."""

from __future__ import annotations

import re

import narthex

from bench import calls
from bench.cases import cases, operands


def texts(family: str) -> list[str]:
    return [text for kind, text in cases() if kind == family]


def test_small_and_large_are_the_same_operators() -> None:
    def operator(text: str) -> str:
        return re.sub(r"\d+( << \d+)?", "#", re.sub(r"\b([A-Z]|[a-z]0)\b", "_", text))

    assert len(texts("small")) > 20
    assert [operator(text) for text in texts("small")] == [operator(text) for text in texts("large")]


def test_small_and_large_run() -> None:
    names = operands(narthex)
    for text in texts("small") + texts("large"):
        with narthex.no_grad():
            eval(text, names)


def test_calls_of_models_run() -> None:
    names = calls.operands(narthex)
    with narthex.no_grad():
        for family, text in cases("calls.txt"):
            if family in ("sums", "choice", "making", "matrices", "steps"):
                eval(text, names)
