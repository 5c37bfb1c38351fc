"""What was measured, and how: a Measurement holds the times of one TaskSpec."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from textwrap import indent
from typing import Any

from .... import _C

__all__ = [
    "Measurement", "TaskSpec", "ordered_unique", "select_unit", "set_torch_threads", "trim_sigfig", "unit_to_english",
]  # fmt: skip

UNITS = {"ns": (1e-9, "nanosecond"), "us": (1e-6, "microsecond"), "ms": (1e-3, "millisecond"), "s": (1, "second")}
SPREAD, GREAT_SPREAD = 0.1, 0.25  # of the median: the distance of the quartiles from which a measurement warns
LEAST_INTERVAL = 25e-9  # seconds; nothing is known better
MOST_FIGURES = 4


@dataclass(repr=False, frozen=True)
class TaskSpec:
    """A statement that is timed, and what results are called in tables."""

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label, else the statement."""
        if self.label is None and "\n" in self.stmt:
            return f"stmt:{f' ({self.sub_label})' if self.sub_label else ''}\n{indent(self.stmt, '  ')}"
        return (self.stmt if self.label is None else self.label) + (f": {self.sub_label}" if self.sub_label else "")

    def setup_str(self) -> str:
        """The setup, if there is one."""
        if not self.setup or self.setup == "pass":
            return ""
        return f"setup:\n{indent(self.setup, '  ')}" if "\n" in self.setup else f"setup: {self.setup}"

    def summarize(self) -> str:
        """Title, description and setup, a line each; a line is left out behind what has several."""
        parts = [part for part in (self.title, self.description, self.setup_str()) if part]
        return "\n".join(part + "\n" if "\n" in part else part for part in parts)


@dataclass(repr=False)
class Measurement:
    """Times of one statement, in seconds: `raw_times` each of `number_per_run` runs."""

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = None

    def __getattr__(self, name: str) -> Any:
        if name in _SPECIFIED:
            return getattr(self.task_spec, name)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    @property
    def times(self) -> list[float]:
        """The seconds of one run."""
        return [seconds / self.number_per_run for seconds in self.raw_times]

    def _quantile(self, part: float) -> float:
        return _C.tensor(self.times, dtype=_C.float64).quantile(part).item() if self.raw_times else -1.0

    @property
    def median(self) -> float:
        return self._quantile(0.5)

    @property
    def mean(self) -> float:
        return _C.tensor(self.times, dtype=_C.float64).mean().item() if self.raw_times else -1.0

    @property
    def iqr(self) -> float:
        """The distance between the quartiles."""
        return self._quantile(0.75) - self._quantile(0.25)

    @property
    def significant_figures(self) -> int:
        """How many figures of the median can be told, by the spread of the middle half; 1 to 4."""
        ordered = sorted(self.times)
        middle = _C.tensor(ordered[len(ordered) // 4 : -(-3 * len(ordered) // 4)])
        interval = max(1.645 * middle.std(unbiased=False).item() / len(middle) ** 0.5, LEAST_INTERVAL)
        return min(max(int(_C.tensor(self.median / interval).log10().floor()), 1), MOST_FIGURES)

    @property
    def _warnings(self) -> tuple[str, ...]:
        if not self.raw_times or self.meets_confidence():
            return ()
        if self.meets_confidence(GREAT_SPREAD):
            why = "This could indicate system fluctuation."
        else:
            why = "This suggests significant environmental influence."
        part = self.iqr / self.median * 100
        return (f"  WARNING: Interquartile range is {part:.1f}% of the median measurement.\n           {why}",)

    @property
    def has_warnings(self) -> bool:
        return bool(self._warnings)

    def meets_confidence(self, threshold: float = SPREAD) -> bool:
        """Whether the quartiles are nearer to each other than this part of the median."""
        return self.iqr / self.median < threshold

    @property
    def title(self) -> str:
        return self.task_spec.title

    @property
    def env(self) -> str:
        return "Unspecified env" if self.task_spec.env is None else self.task_spec.env

    @property
    def as_row_name(self) -> str:
        return self.sub_label or self.stmt or "[Unknown]"

    def __repr__(self) -> str:
        unit, scale = select_unit(self.median)
        n, threads, several = len(self.raw_times), self.num_threads, len(self.raw_times) > 1
        lines = [object.__repr__(self), self.task_spec.summarize()]
        lines.append(f"  {'Median: ' if several else ''}{self.median / scale:.2f} {unit}")
        if n >= 4:
            low, high = self._quantile(0.25) / scale, self._quantile(0.75) / scale
            lines.append(f"  IQR:    {self.iqr / scale:.2f} {unit} ({low:.2f} to {high:.2f})")
        each, more = ("per measurement,", "s") if several else (",", "")
        of = f"{threads} thread{'s' if threads > 1 else ''}"
        lines.append(f"  {n} measurement{more}, {self.number_per_run} runs {each} {of}")
        return "\n".join("\n".join([*lines, *self._warnings]).strip().splitlines())

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """One measurement for each TaskSpec, of the times of single runs."""
        groups: dict[TaskSpec, list[float]] = {}
        for one in measurements:
            groups.setdefault(one.task_spec, []).extend(one.times)
        return [Measurement(1, times, spec, None) for spec, times in groups.items()]


_SPECIFIED = tuple(field.name for field in fields(TaskSpec))


def select_unit(t: float) -> tuple[str, float]:
    """(unit, its seconds) in which a time of `t` seconds has few figures."""
    unit = {-3: "ns", -2: "us", -1: "ms"}.get(int(_C.tensor(t).log10().item() // 3), "s")
    return unit, UNITS[unit][0]


def unit_to_english(u: str) -> str:
    """The word for a unit."""
    return UNITS[u][1]


def trim_sigfig(x: float, n: int) -> float:
    """`x` rounded to `n` figures, in float32."""
    if n != int(n):
        raise AssertionError("Number of significant figures must be an integer")
    scale = 10 ** (int(_C.tensor(x).abs().log10().ceil().item()) - n)
    return float(_C.tensor(x / scale).round() * scale)


def ordered_unique(elements: Iterable[Any]) -> list[Any]:
    """The elements without those that came before."""
    return list(dict.fromkeys(elements))


@contextmanager
def set_torch_threads(n: int) -> Iterator[None]:
    """As many threads inside."""
    before = _C.get_num_threads()
    _C.set_num_threads(n)
    try:
        yield
    finally:
        _C.set_num_threads(before)
