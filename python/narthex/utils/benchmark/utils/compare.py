"""Tables of measurements: one for each label, a row for each way, a column for each description."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from .... import _C
from .common import Measurement, ordered_unique, select_unit, trim_sigfig, unit_to_english

__all__ = ["Colorize", "Compare"]

BEST, GOOD, BAD, WORST = "\033[92m\033[1m", "\033[34m\033[1m", "\033[2m\033[91m", "\033[31m\033[1m"
END = "\033[0m"


class Colorize(enum.Enum):
    NONE = "none"
    COLUMNWISE = "columnwise"
    ROWWISE = "rowwise"


def _colored(text: str, value: float, best: float) -> str:
    if value <= best * 1.01 or value <= best + 100e-9:
        return BEST + text + END * 2
    if value <= best * 1.1:
        return GOOD + text + END * 2
    if value >= best * 5:
        return WORST + text + END * 2
    return BAD + text + END * 2 if value >= best * 2 else text


@dataclass
class _Style:
    """What of a table was asked for."""

    trims: bool = False
    warns: bool = False
    colors: Colorize = Colorize.NONE


class _Column:
    """How the numbers of a column are written: all with as many places."""

    def __init__(self, results: list[Measurement | None], scale: float, style: _Style) -> None:
        there = [result for result in results if result is not None]
        digits = [int(_C.tensor(result.median / scale).log10().ceil()) for result in there]
        self.scale, self.trims = scale, style.trims
        self.warns = style.warns and any(result.has_warnings for result in there)
        behind = min(max(r.significant_figures - n, 0) for r, n in zip(there, digits)) if style.trims else 1
        self.template = f"{{:>{max(digits) + behind + (behind > 0)}.{behind}f}}{{:>{7 * self.warns}}}"

    def text(self, result: Measurement | None) -> str:
        if result is None:
            return " " * len(self.template.format(trim_sigfig(1, 1) if self.trims else 1, ""))
        value = result.median / self.scale
        spread = f" (! {result.iqr / result.median * 100:.0f}%)" if self.warns and result.has_warnings else ""
        return self.template.format(trim_sigfig(value, result.significant_figures) if self.trims else value, spread)


class Table:
    """The measurements of one label as text."""

    def __init__(self, results: list[Measurement], style: _Style) -> None:
        self.results, self.style = results, style
        self.unit, self.scale = select_unit(min(result.median for result in results))
        keys = ordered_unique((r.num_threads, r.env, r.as_row_name) for r in results)
        self.keys = sorted(keys, key=lambda key: key[:2])  # rows of the same threads and env as they came
        self.titles = ordered_unique(result.description for result in results)
        cells = {(r.num_threads, r.env, r.as_row_name, r.description): r for r in results}
        self.rows = [[cells.get((*key, title)) for title in self.titles] for key in self.keys]
        self.columns = [_Column([row[k] for row in self.rows], self.scale, style) for k in range(len(self.titles))]

    def _names(self) -> list[str]:
        """What stands before each row: its env where that is another one than above, and its name."""
        envs = {result.env for result in self.results}
        room = max(map(len, envs)) + 4 if len(envs) > 1 else 4
        names, above = [], None
        for threads, env, name in self.keys:
            shown = f"({env})" if len(envs) > 1 and (threads, env) != above else ""
            names.append("  " + shown.ljust(room) + name)
            above = threads, env
        return names

    def _bests(self, at: int) -> list[float | None]:
        """What the times of a row are coloured by."""
        if self.style.colors is Colorize.ROWWISE:
            return [min(r.median for r in self.rows[at] if r is not None)] * len(self.titles)
        group = [row for key, row in zip(self.keys, self.rows) if key[0] == self.keys[at][0]]
        return [min((row[k].median for row in group if row[k]), default=None) for k in range(len(self.titles))]

    def render(self) -> str:
        """The table, its units below."""
        texts = [[column.text(result) for column, result in zip(self.columns, row)] for row in self.rows]
        names = self._names()
        heads = ["", *("" if title is None else title for title in self.titles)]
        widths = [max(map(len, names)), *(max(len(t) for t in column) for column in zip(*texts))]
        widths = [max(width, len(head)) for width, head in zip(widths, heads)]
        lines = ["  |  ".join(head.center(width) for head, width in zip(heads, widths))]
        length, threads = len(lines[0]), None
        for at, (key, name) in enumerate(zip(self.keys, names)):
            if key[0] != threads:
                threads = key[0]
                lines.append(f"{threads} threads: ".ljust(length, "-"))
            cells = [text.center(width) for text, width in zip(texts[at], widths[1:])]
            if self.style.colors is not Colorize.NONE:
                cells = [
                    text if result is None or best is None else _colored(text, result.median, best)
                    for text, result, best in zip(cells, self.rows[at], self._bests(at))
                ]
            lines.append("  |  ".join([name.ljust(widths[0]), *cells]))
        title = f" {self.results[0].label or ''} ".center(length - 2, "-")
        text = f"[{title}]\n" + "\n".join(lines) + f"\n\nTimes are in {unit_to_english(self.unit)}s ({self.unit}).\n"
        if self.style.warns and any(result.has_warnings for result in self.results):
            text += "(! XX%) Measurement has high variance, where XX is the IQR / median * 100.\n"
        return text


class Compare:
    """Measurements as tables: print(Compare(results)). Several of one TaskSpec are one."""

    def __init__(self, results: Iterable[Measurement]) -> None:
        self._results: list[Measurement] = []
        self._style = _Style()
        self.extend_results(results)

    def __str__(self) -> str:
        groups: dict[str | None, list[Measurement]] = {}
        for result in Measurement.merge(self._results):
            groups.setdefault(result.label, []).append(result)
        return "\n".join(Table(group, self._style).render() for group in groups.values())

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """More measurements."""
        results = list(results)
        for result in results:
            if not isinstance(result, Measurement):
                raise ValueError(f"Expected an instance of `Measurement`, got {type(result)} instead.")
        self._results.extend(results)

    def trim_significant_figures(self) -> None:
        """Shows no more figures than can be told."""
        self._style.trims = True

    def colorize(self, rowwise: bool = False) -> None:
        """Colours times by how far they are from the best of their column, or row."""
        self._style.colors = Colorize.ROWWISE if rowwise else Colorize.COLUMNWISE

    def highlight_warnings(self) -> None:
        """Shows the spread of what spreads."""
        self._style.warns = True

    def print(self) -> None:
        """Writes the tables."""
        print(str(self))
