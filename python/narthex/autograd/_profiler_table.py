"""The events of a profile as a table and as a trace. Times are microseconds."""

from __future__ import annotations

from .profiler_util import EventList, _memory, _time

_WIDTH = 12  # of a column of numbers
_UNITS = ((1, "FLOPs"), (10**3, "KFLOPs"), (10**6, "MFLOPs"), (10**9, "GFLOPs"), (10**12, "TFLOPs"))


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width or width <= 0 else text[: width - 3] + "..."


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.2f}%" if whole else "NaN" if part else "0.00%"


class _Columns:
    """Which columns there are, their widths, and the cells of a row."""

    def __init__(self, events: EventList, limits: tuple, time_unit: str | None) -> None:
        self.limits, self.unit, self.whole = limits, time_unit, events.self_cpu_time_total
        self.shapes = any(event.input_shapes for event in events)
        self.overloads = any(event.overload_name for event in events)
        self.stacks = any(event.stack for event in events)
        self.memory = events._profile_memory
        least = min((event.flops for event in events if event.flops), default=0) if events._with_flops else 0
        self.flops = next((unit for unit in reversed(_UNITS) if least >= unit[0]), None) if least else None
        fit = lambda texts, limit: min(max(map(len, texts)) + 4, limit if limit > 0 else 10**9)  # noqa: E731
        columns = [("Name", fit([event.key for event in events], limits[0]))]
        if self.overloads:
            columns.append(("Overload Name", fit([event.overload_name for event in events] + [" " * 9], limits[0])))
        names = ["Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg"]
        columns += [(name, _WIDTH) for name in names + ["CPU Mem", "Self CPU Mem"] * self.memory + ["# of Calls"]]
        if self.shapes:
            columns.append(("Input Shapes", fit([str(event.input_shapes) for event in events], limits[1])))
        if self.stacks:
            places = [place for event in events for place in event.stack]
            columns.append(("Source Location", fit(places, limits[2])))
        if self.flops:
            columns.append((f"Total {self.flops[1]}", _WIDTH))
        self.heads, self.widths = [name for name, _ in columns], [width for _, width in columns]

    def cells(self, event) -> list[str]:
        own, total = event.self_cpu_time_total, event.cpu_time_total
        cells = [_cut(event.key, self.limits[0])]
        if self.overloads:
            cells.append(_cut(event.overload_name, self.limits[0]))
        cells += [_share(own, self.whole), _time(own, self.unit), _share(total, self.whole), _time(total, self.unit),
                  _time(event.cpu_time, self.unit)]  # fmt: skip
        if self.memory:
            cells += [_memory(event.cpu_memory_usage), _memory(event.self_cpu_memory_usage)]
        cells.append(str(event.count))
        if self.shapes:
            cells.append(_cut(str(event.input_shapes), self.limits[1]))
        if self.stacks:
            cells.append(_cut(event.stack[0] if event.stack else "", self.limits[2]))
        if self.flops:
            cells.append(f"{event.flops / self.flops[0]:8.3f}".strip() if event.flops else "--")
        return cells

    def line(self, cells: list[str]) -> str:
        return "".join(cell.rjust(width) + "  " for cell, width in zip(cells, self.widths))

    def rows(self, event) -> list[str]:
        """Its line, and one for each further place of its stack."""
        lines = [self.line(self.cells(event))]
        at = self.heads.index("Source Location") if self.stacks else 0
        for place in event.stack[1:] if self.stacks else ():
            cells = [""] * len(self.heads)
            cells[at] = _cut(place, self.limits[2])
            lines.append(self.line(cells))
        return lines


def table(events: EventList, sort_by: str | None, row_limit: int, limits: tuple, header: str | None, top_only: bool,
          time_unit: str | None) -> str:  # fmt: skip
    """See EventList.table(); `limits` are the widest columns of names, shapes and places."""
    if not events:
        return ""
    if sort_by is not None:
        name = sort_by.replace("cuda", "device").replace("xpu", "device").replace("privateuse1", "device")
        events = events._like(sorted(events, key=lambda event: getattr(event, name), reverse=True))
    columns = _Columns(events, limits, time_unit)
    line = columns.line(["-" * width for width in columns.widths])
    text = ["=" * len(line), header] if header else []
    if top_only:
        text += ["=" * len(line), "This report only display top-level ops statistics"]
    text += [line, columns.line(columns.heads), line]
    shown = [event for event in events if not top_only or event.cpu_parent is None]
    for event in shown[: row_limit if row_limit >= 0 else None]:
        text += columns.rows(event)
    return "\n".join([*text, line, f"Self CPU time total: {_time(columns.whole, time_unit)}", ""])


def _trace_event(event, number: int, process: int) -> dict:
    args = {"Ev Idx": number, "External id": event.id}
    if event.sequence_nr >= 0:
        args |= {"Sequence number": event.sequence_nr, "Fwd thread id": event.fwd_thread}
    if event.input_shapes:
        args |= {"Input Dims": event.input_shapes, "Input Strides": event.input_strides,
                 "Input type": event.input_types,
                 "Concrete Inputs": ["" if each is None else str(each) for each in event.concrete_inputs]}  # fmt: skip
    if event.stack:
        args["Call stack"] = ";".join(reversed(event.stack))
    category = "user_annotation" if event.is_user_annotation else "cpu_op"
    start, end = event.time_range.start, event.time_range.end
    return {"ph": "X", "cat": category, "name": event.trace_name, "pid": process, "tid": event.native_thread,
            "ts": start, "dur": end - start, "args": args}  # fmt: skip


def _arrows(events: EventList, process: int) -> list[dict]:
    """From the operator that made a node of the backward to the node."""
    makers, arrows = {}, []
    for event in events:
        if event.sequence_nr < 0:
            continue
        if not event.fwd_thread:
            makers[event.sequence_nr] = event  # the innermost: it began last
        elif event.scope == 1 and event.sequence_nr in makers:
            ends = (("s", makers[event.sequence_nr], {}), ("f", event, {"bp": "e"}))
            arrows += [{"ph": phase, "id": event.sequence_nr, "pid": process, "tid": one.native_thread, "cat": "fwdbwd",
                        "name": "fwdbwd", "ts": one.time_range.start, **more} for phase, one, more in ends]  # fmt: skip
    return arrows


def write_trace(events: EventList, path: str, more: dict) -> None:
    """`more`: what the program wants to stand beside the events."""
    import gzip
    import json
    import os

    process = os.getpid()
    shown = [_trace_event(event, k, process) for k, event in enumerate(events) if hasattr(event, "native_thread")]
    named = {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "ts": 0, "args": {"name": "python"}}
    shown = [named, *shown, *_arrows(events, process)]
    whole = {"schemaVersion": 1, "displayTimeUnit": "ms", **more, "traceEvents": shown}
    with gzip.open(path, "wt") if str(path).endswith(".gz") else open(path, "w") as file:
        json.dump(whole, file)
