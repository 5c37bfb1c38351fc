"""Times of named ranges. Operators are not recorded: a profile holds what `record_function` names, and says so once.

    with torch.profiler.profile() as profiled:
        with torch.profiler.record_function("forward"):
            ...
    print(profiled.key_averages().table())
"""

from __future__ import annotations

import threading
import warnings
from bisect import bisect_left, bisect_right
from contextlib import ContextDecorator
from time import perf_counter_ns

from .._absent import getter

__all__ = ["EventList", "FunctionEvent", "profile", "record_function"]

_running: list = []  # the profiles that record, of all threads
_open = threading.local()  # .ranges: the ranges that this thread is in, the innermost last


class FunctionEvent:
    """A range that was run through once, or, of `key_averages()`, all ranges of one name. Times are microseconds."""

    def __init__(self, name: str, thread: int, start_us: float, end_us: float = 0.0) -> None:
        self.name, self.thread, self.start_us, self.end_us, self.count = name, thread, start_us, end_us, 1
        self.cpu_parent, self.cpu_children = None, []
        self.cpu_time_total = self.self_cpu_time_total = 0.0
        self.is_user_annotation, self.device_time_total = True, 0.0

    key = property(lambda self: self.name)
    cpu_time = property(lambda self: self.cpu_time_total / self.count)

    def _end(self, end_us: float) -> None:
        self.end_us, self.cpu_time_total = end_us, end_us - self.start_us
        self.self_cpu_time_total = self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)

    def add(self, other: FunctionEvent) -> FunctionEvent:
        """Counts another one of the same name in."""
        self.count += other.count
        self.cpu_time_total += other.cpu_time_total
        self.self_cpu_time_total += other.self_cpu_time_total
        return self

    def __repr__(self) -> str:
        return f"<FunctionEvent name={self.name} count={self.count} cpu_time={_time(self.cpu_time)}>"


def _time(us: float) -> str:
    """Microseconds in the unit that suits them."""
    if us >= 1e6:
        return f"{us / 1e6:.3f}s"
    return f"{us / 1e3:.3f}ms" if us >= 1e3 else f"{us:.3f}us"


_SORTS = ("count", "cpu_time", "cpu_time_total", "self_cpu_time_total")


class EventList(list):
    """Events in the order in which they began."""

    def key_averages(self, group_by_input_shape=False, group_by_stack_n=0, group_by_overload_name=False) -> EventList:
        """One event for each name."""
        if group_by_input_shape or group_by_stack_n:
            raise NotImplementedError("key_averages: shapes and stacks are not recorded")
        found: dict = {}
        for event in self:
            if event.name in found:
                found[event.name].add(event)
            else:
                whole = found[event.name] = FunctionEvent(event.name, event.thread, event.start_us, event.end_us)
                whole.cpu_time_total, whole.self_cpu_time_total = event.cpu_time_total, event.self_cpu_time_total
        return EventList(found.values())

    self_cpu_time_total = property(lambda self: sum(event.self_cpu_time_total for event in self))

    def table(self, sort_by: str | None = None, row_limit: int = 100, max_src_column_width: int = 75,
              max_name_column_width: int = 55, max_shapes_column_width: int = 80, header: str | None = None,
              top_level_events_only: bool = False, time_unit: str | None = None) -> str:  # fmt: skip
        """The events as text, a row each; "" of none."""
        if not self:
            return ""
        rows = [event for event in self if not top_level_events_only or event.cpu_parent is None]
        if sort_by is not None:
            if sort_by not in _SORTS:
                raise AttributeError(f"table: sort_by={sort_by!r} is not recorded; there are {', '.join(_SORTS)}")
            rows.sort(key=lambda event: getattr(event, sort_by), reverse=True)
        whole = self.self_cpu_time_total or 1.0
        cells = [["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "# of Calls"]]
        for event in rows[: row_limit if row_limit >= 0 else None]:
            name = event.name
            if len(name) > max_name_column_width:
                name = name[: max_name_column_width - 3] + "..."
            own, total = event.self_cpu_time_total, event.cpu_time_total
            cells.append([name, f"{100 * own / whole:.2f}%", _time(own), f"{100 * total / whole:.2f}%", _time(total),
                          _time(event.cpu_time), str(event.count)])  # fmt: skip
        widths = [max(len(row[k]) for row in cells) for k in range(len(cells[0]))]
        line = "  ".join("-" * width for width in widths)
        text = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths)) for row in cells]
        head = [header] if header else []
        return "\n".join([*head, line, text[0], line, *text[1:], line, f"Self CPU time total: {_time(whole)}", ""])

    def export_chrome_trace(self, path: str) -> None:
        """Writes the events as a trace that chrome://tracing and Perfetto show."""
        import json
        import os

        events = [
            {
                "name": event.name, "ph": "X", "cat": "user_annotation", "pid": os.getpid(), "tid": event.thread,
                "ts": event.start_us, "dur": event.end_us - event.start_us, "args": {},
            }
            for event in self
        ]  # fmt: skip
        with open(path, "w") as file:
            json.dump({"traceEvents": events}, file)

    def __str__(self) -> str:
        return self.table()


class record_function(ContextDecorator):
    """Names what runs inside for the profiles that are on; costs next to nothing when there are none."""

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.args, self._events = name, args, []

    def __enter__(self) -> record_function:
        event = None
        if _running:
            ranges = _open.__dict__.setdefault("ranges", [])
            event = FunctionEvent(self.name, threading.get_ident(), perf_counter_ns() / 1e3)
            if ranges:
                event.cpu_parent = ranges[-1]
                ranges[-1].cpu_children.append(event)
            ranges.append(event)
            for profiled in _running:
                profiled._found.append(event)
        self._events.append(event)
        return self

    def __exit__(self, *exception) -> None:
        event = self._events.pop()
        if event is not None:
            event._end(perf_counter_ns() / 1e3)
            _open.ranges.remove(event)


_REFUSED = ("use_cuda", "record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules", "acc_events")


class profile:
    """Records the ranges that end inside. Shapes, memory, stacks and flops are refused."""

    def __init__(self, enabled: bool = True, **options) -> None:
        for name in _REFUSED:
            if options.get(name):
                raise NotImplementedError(f"profile: {name}=True is not there: only the times of ranges are recorded")
        self.enabled, self._found = enabled, []

    def __enter__(self) -> profile:
        if self.enabled:
            _warn()
            _running.append(self)
        return self

    def __exit__(self, *exception) -> None:
        if self.enabled:
            _running.remove(self)

    @property
    def function_events(self) -> EventList:
        """The ranges that have ended."""
        return EventList(event for event in self._found if event.end_us)

    def events(self) -> EventList:
        """The ranges that have ended."""
        return self.function_events

    def key_averages(self, group_by_input_shape=False, group_by_stack_n=0, **options) -> EventList:
        """One event for each name."""
        return self.function_events.key_averages(group_by_input_shape, group_by_stack_n)

    def table(self, *args, **kwargs) -> str:
        """The events as text."""
        return self.function_events.table(*args, **kwargs)

    def export_chrome_trace(self, path: str) -> None:
        """Writes the events as a trace."""
        self.function_events.export_chrome_trace(path)

    self_cpu_time_total = property(lambda self: self.function_events.self_cpu_time_total)


_warned = False


def _warn() -> None:
    global _warned
    if not _warned:
        _warned = True
        warnings.warn("profile: operators are not recorded, only what record_function names", stacklevel=4)


class _Ranges:
    """Ranges for a tool of a vendor's."""

    def __init__(self, *args, **kwargs) -> None:
        raise NotImplementedError(f"{type(self).__name__}: no such tool is spoken to; profile(...) times named ranges")


class emit_itt(_Ranges):
    """Raises NotImplementedError."""


class emit_nvtx(_Ranges):
    """Raises NotImplementedError."""


class EnforceUnique:
    """see(*key) raises when it has seen that key before."""

    def __init__(self) -> None:
        self.seen: set = set()

    def see(self, *key) -> None:
        """Notes the key."""
        if key in self.seen:
            raise RuntimeError("duplicate key: " + str(key))
        self.seen.add(key)


class KinetoStepTracker:
    """One count of steps for several who count them: an optimizer, a profile. It is the largest of theirs."""

    _current_step = 0
    _step_dict: dict = {}

    @classmethod
    def init_step_count(cls, requester: str) -> None:
        """`requester` counts from the current step on."""
        cls._step_dict[requester] = cls._current_step

    @classmethod
    def erase_step_count(cls, requester: str) -> bool:
        """`requester` counts no more; whether it did."""
        return cls._step_dict.pop(requester, None) is not None

    @classmethod
    def increment_step(cls, requester: str) -> int:
        """One step of `requester`; the current step."""
        if requester not in cls._step_dict:
            cls.init_step_count(requester)
        cls._step_dict[requester] += 1
        new = max(cls._step_dict.values())
        if new - cls._current_step > 1:
            warnings.warn(
                "Profiler step count has increased more than 1 - "
                f"current_step = {cls._current_step} step dict =  {cls._step_dict}",
                stacklevel=2,
            )
        cls._current_step = max(new, cls._current_step)
        return cls._current_step

    @classmethod
    def current_step(cls) -> int:
        """The largest count so far."""
        return cls._current_step


class MemRecordsAcc:
    """Records (event, ...) by the time at which their events start."""

    def __init__(self, mem_records) -> None:
        self._sorted = sorted(mem_records, key=lambda record: record[0].start_ns())
        self._starts = [record[0].start_ns() for record in self._sorted]

    def in_interval(self, start_ns, end_ns):
        """Those that start in [start_ns, end_ns], in their order."""
        yield from self._sorted[bisect_left(self._starts, start_ns) : bisect_right(self._starts, end_ns)]


__getattr__ = getter("torch.autograd.profiler")
