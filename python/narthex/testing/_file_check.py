"""FileCheck: whether a text holds given parts in an order, such as the text of a graph."""

from __future__ import annotations

import re
from typing import NamedTuple

_KINDS = r"COUNT-EXACTLY-\d+|COUNT-\d+|NEXT|SAME|NOT|DAG|REGEX|SOURCE-HIGHLIGHTED"
_LINE = re.compile(rf"#[ \t]*CHECK(?:-({_KINDS}))?:[ \t]?(.*)")


class _Check(NamedTuple):
    kind: str  # CHECK, NEXT, SAME, NOT, DAG, COUNT, REGEX, SOURCE-HIGHLIGHTED
    text: str
    count: int = 1

    def name(self) -> str:
        """As errors call it."""
        kind = f"COUNT-{self.count}" if self.kind == "COUNT" else self.kind
        return f"From CHECK{'' if kind == 'CHECK' else '-' + kind}: {self.text}"


def _at(text: str, place: int) -> str:
    """The text around a place, with a mark under it."""
    start = text.rfind("\n", 0, place) + 1
    end = text.find("\n", place)
    line = text[start : len(text) if end < 0 else end]
    return f"{line}\n{' ' * (place - start)}~ <--- HERE\n"


def _find(check: _Check, text: str, start: int) -> tuple[int, int]:
    """Where the part begins and ends."""
    if check.kind == "REGEX":
        match = re.compile(check.text).search(text, start)
        if match:
            return match.span()
        raise RuntimeError(
            f'Expected to find regex "{check.text}" but did not find it\n'
            f"Searched string:\n{text[start:]}{check.name()}\n"
        )
    place = text.find(check.text, start)
    if place < 0:
        raise RuntimeError(
            f'Expected to find "{check.text}" but did not find it\nSearched string:\n{text[start:]}{check.name()}\n'
        )
    return place, place + len(check.text)


def _refuse(check: _Check, text: str, start: int, end: int, part: str | None = None) -> None:
    """`part`: what must not be there, in the check's text's place."""
    part = check.text if part is None else part
    place = text.find(part, start, end)
    if place >= 0:
        shown = part.replace("\n", "\\n")
        raise RuntimeError(f'Expected to not find "{shown}" but found it\n{_at(text, place)}{check.name()}\n')


def _find_marked(check: _Check, text: str, start: int) -> tuple[int, int]:
    """The part with `~` below each of its characters, on the line that follows."""
    place, end = _find(check, text, start)
    while True:
        line = text.rfind("\n", 0, place) + 1
        below = text.find("\n", end) + 1
        marks = text[below:].partition("\n")[0] if below else ""
        first, last = place - line, end - line
        around = marks[:first][-1:] + marks[last : last + 1]
        if len(marks) >= last and set(marks[first:last]) == {"~"} and "~" not in around:
            return place, below + last
        if text.find(check.text, end) < 0:
            raise RuntimeError(f'Expected to find "{check.text}"highlighted but it is not.\n{_at(text, place)}')
        place, end = _find(check, text, end)


def _follow(check: _Check, text: str, start: int) -> tuple[int, int]:
    """Where a check is met, from `start` on."""
    if check.kind == "COUNT":
        place, end = _find(check, text, start)
        for _ in range(check.count - 1):
            _, end = _find(check, text, end)
        return place, end
    if check.kind == "SOURCE-HIGHLIGHTED":
        return _find_marked(check, text, start)
    place, end = _find(check, text, start)
    if check.kind == "SAME":
        _refuse(check, text, start, place, "\n")
    if check.kind == "NEXT":
        first = text.find("\n", start, place)
        if first < 0:
            raise RuntimeError(
                f'Expected to find "\\n" but did not find it\nSearched string:\n{text[start:place]}{check.name()}\n'
            )
        _refuse(check, text, first + 1, place, "\n")
    return place, end


class FileCheck:
    """Checks that run(text) makes, one after the other: each is looked for behind the one before.

    check_not: not between its neighbours. check_dag, several in a row: in any order. A failed check is a RuntimeError.
    """

    def __init__(self) -> None:
        self._checks: list[_Check] = []

    def __repr__(self) -> str:
        return "FileCheck checks:" + "".join(f"\n\t{check.name()}" for check in self._checks)

    def _add(self, kind: str, text: str, count: int = 1) -> FileCheck:
        self._checks.append(_Check(kind, text, count))
        return self

    def check(self, test_string: str) -> FileCheck:
        """The text is there."""
        return self._add("CHECK", test_string)

    def check_next(self, test_string: str) -> FileCheck:
        """It is there, on the line after the last check."""
        return self._add("NEXT", test_string)

    def check_same(self, test_string: str) -> FileCheck:
        """It is there, on the line of the last check."""
        return self._add("SAME", test_string)

    def check_not(self, test_string: str) -> FileCheck:
        """It is not there before the next check."""
        return self._add("NOT", test_string)

    def check_dag(self, test_string: str) -> FileCheck:
        """It is there, before or after the other check_dag around it."""
        return self._add("DAG", test_string)

    def check_count(self, test_string: str, count: int, exactly: bool = False) -> FileCheck:
        """It is there so many times, and with `exactly` no more before the next check."""
        self._add("COUNT", test_string, count)
        return self._add("NOT", test_string) if exactly else self

    def check_regex(self, test_string: str) -> FileCheck:
        """Something that the pattern matches is there."""
        return self._add("REGEX", test_string)

    def check_source_highlighted(self, test_string: str) -> FileCheck:
        """It is there with `~` under each of its characters."""
        return self._add("SOURCE-HIGHLIGHTED", test_string)

    def _read(self, text: str) -> None:
        for line in text.splitlines():
            match = _LINE.search(line)
            if match is None:
                continue
            kind, part = match[1] or "CHECK", match[2].strip()
            if kind.startswith("COUNT"):
                self.check_count(part, int(kind.rpartition("-")[2]), exactly="EXACTLY" in kind)
            else:
                self._add(kind, part)

    def run(self, *texts: str) -> None:
        """Makes the checks on the last of `texts`; the first of two holds them as lines such as `# CHECK-NEXT:
        text`."""
        *sources, text = (str(one) for one in texts)
        for source in sources:
            self._read(source)
        if not self._checks:
            raise RuntimeError("No checks have been added to this instance of Filecheck! Check for bad input.")
        start, refused, k = 0, [], 0
        while k < len(self._checks):
            check = self._checks[k]
            if check.kind == "NOT":
                refused.append(check)
                k += 1
                continue
            n = 1
            while check.kind == "DAG" and k + n < len(self._checks) and self._checks[k + n].kind == "DAG":
                n += 1
            found = [_follow(one, text, start) for one in self._checks[k : k + n]]
            for one in refused:
                _refuse(one, text, start, min(place for place, _ in found))
            start, refused, k = max(end for _, end in found), [], k + n
        for one in refused:
            _refuse(one, text, start, len(text))
