"""Timer: runs a statement often enough to tell how long it takes."""

from __future__ import annotations

import enum
import timeit
from collections.abc import Callable
from textwrap import dedent
from typing import Any

from .... import _C
from .common import Measurement, TaskSpec, set_torch_threads

__all__ = ["Language", "Timer", "timer"]

MOST_RUNS = 2147483647
OVERHEAD = 1e-4  # the part of a block's time that starting and stopping the clock may take


def timer() -> float:
    """Seconds of a clock, once accelerators have done their work."""
    from .... import accelerator

    if accelerator.is_available():
        accelerator.synchronize()
    return timeit.default_timer()


class Language(enum.Enum):
    PYTHON = 0
    CPP = 1


def _trimmed(code: str) -> str:
    code = dedent(code)
    return code.removeprefix("\n").rstrip()


class Timer:
    """Times `stmt`, a statement in text, after `setup`, with `globals` and torch: see timeit.Timer. The other arguments
    say what results are called in tables. One thread, unless `num_threads` says otherwise."""

    _timer_cls = timeit.Timer

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Language | str = Language.PYTHON,
    ) -> None:
        if not isinstance(stmt, str):
            raise ValueError("Currently only a `str` stmt is supported.")
        if language in (Language.CPP, "cpp", "c++"):
            raise NotImplementedError("Timer: statements in C++ are not there; narthex.h has functions for C programs")
        if language not in (Language.PYTHON, "py", "python"):
            raise ValueError(f"Invalid language `{language}`.")
        if global_setup:
            raise ValueError(
                f"global_setup is C++ only, got `{global_setup}`. Most likely this code can simply be moved to `setup`."
            )
        import narthex

        self._globals, self._language = {"torch": narthex, **(globals or {})}, Language.PYTHON
        stmt, setup = _trimmed(stmt), _trimmed(setup)
        self._timer = self._timer_cls(stmt=stmt, setup=setup, timer=timer, globals=self._globals)
        self._task_spec = TaskSpec(stmt, setup, global_setup, label, sub_label, description, env, num_threads)

    def _timeit(self, number: int) -> float:
        return max(self._timer.timeit(number), 1e-9)  # no clock tells less

    def _measured(self, number: int, times: list[float]) -> Measurement:
        return Measurement(number, times, self._task_spec)

    def timeit(self, number: int = 1000000) -> Measurement:
        """The time of `number` runs, after some that are not counted."""
        with set_torch_threads(self._task_spec.num_threads):
            self._timeit(max(number // 100, 2))
            return self._measured(number, [self._timeit(number)])

    def repeat(self, repeat: int = -1, number: int = -1) -> None:
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def autorange(self, callback=None) -> None:
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def _block_size(self, min_run_time: float) -> int:
        """How many runs one reading of the clock is for: by tens, until its own time is nothing beside theirs."""
        with set_torch_threads(self._task_spec.num_threads):
            overhead = _C.tensor([self._timeit(0) for _ in range(5)]).median().item()
            number = 1
            while True:
                taken = self._timeit(number)
                enough = overhead / taken <= OVERHEAD and taken >= min_run_time / 1000
                if enough or taken > min_run_time or number * 10 > MOST_RUNS:
                    return number
                number *= 10

    def _blocks(self, number: int, callback, is_enough: Callable[[list[float], float], bool]) -> list[float]:
        times: list[float] = []
        total = 0.0
        with set_torch_threads(self._task_spec.num_threads):
            while not is_enough(times, total):
                times.append(self._timeit(number))
                total += times[-1]
                if callback:
                    callback(number, times[-1])
        return times

    def blocked_autorange(self, callback=None, min_run_time: float = 0.2) -> Measurement:
        """Blocks of as many runs as the clock needs, until `min_run_time` seconds have passed; after each
        `callback(runs, seconds)` is called."""
        number = self._block_size(min_run_time)
        return self._measured(
            number, self._blocks(number, callback, lambda times, total: bool(times) and total >= min_run_time)
        )

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback=None,
    ) -> Measurement:
        """The same until the quartiles are nearer to each other than `threshold` of the median, after more than three
        blocks, or `max_run_time` has passed."""
        number = self._block_size(0.05)

        def is_enough(times: list[float], total: float) -> bool:
            if times and total > max_run_time:
                return True
            return (
                total >= min_run_time and len(times) > 3 and self._measured(number, times).meets_confidence(threshold)
            )

        return self._measured(number, self._blocks(number, callback, is_enough))

    def collect_callgrind(self, number=100, *, repeats=None, collect_baseline=True, retain_out_file=False):
        """Raises: instructions are not counted."""
        raise NotImplementedError("Timer.collect_callgrind is not there: instructions are not counted")
