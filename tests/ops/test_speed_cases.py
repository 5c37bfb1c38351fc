"""The speed cases of bench/cases.txt: the hot operators are the same in both sizes and run."""

from __future__ import annotations

import re

import narthex

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
