"""What a profile holds, once it has been read: events, sums of events, tables and traces. Times are microseconds."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from enum import Enum
from math import prod

from .._absent import getter

__all__ = ["EventList", "FormattedTimesMixin", "FunctionEvent", "FunctionEventAvg", "Interval", "MemRecordsAcc"]

MEMORY_EVENT_NAME = "[memory]"


class DeviceType(Enum):
    """Where an event was run."""

    CPU = 0
    CUDA = 1
    PrivateUse1 = 20


class Interval:
    """From `start` to `end`."""

    def __init__(self, start: float, end: float) -> None:
        self.start, self.end = start, end

    def elapsed_us(self) -> float:
        """How long it is."""
        return self.end - self.start

    def __repr__(self) -> str:
        return f"Interval(start={self.start}, end={self.end})"


def _time(us: float, unit: str | None = None) -> str:
    """In the unit asked for, or in the one that suits it."""
    if unit is None:
        unit = "s" if us >= 1e6 else "ms" if us >= 1e3 else "us"
    return f"{us / {'s': 1e6, 'ms': 1e3, 'us': 1.0}[unit]:.3f}{unit}"


def _memory(count: int) -> str:
    for size, unit in ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")):
        if abs(count) >= size:
            return f"{count / size:.2f} {unit}"
    return f"{count} B"


def _printed(name: str) -> property:
    return property(lambda self: _time(getattr(self, name)))


class FormattedTimesMixin:
    """Times as text, and times of one call."""

    cpu_time_str, device_time_str = _printed("cpu_time"), _printed("device_time")
    cpu_time_total_str, device_time_total_str = _printed("cpu_time_total"), _printed("device_time_total")
    self_cpu_time_total_str = _printed("self_cpu_time_total")
    self_device_time_total_str = _printed("self_device_time_total")
    cpu_time = property(lambda self: self.cpu_time_total / self.count if self.count else 0.0)
    device_time = property(lambda self: self.device_time_total / self.count if self.count else 0.0)
    cuda_time, cuda_time_total = device_time, property(lambda self: self.device_time_total)


class FunctionEvent(FormattedTimesMixin):
    """One operator, node of a backward, compiled graph, step of one or named range that was run."""

    is_async = is_remote = is_legacy = False
    node_id, use_device, device_index, count = -1, None, 0, 1
    device_type, device_time_total, self_device_time_total = DeviceType.CPU, 0.0, 0.0

    def __init__(self, id: int, name: str, thread: int, start_us: float, end_us: float, **more) -> None:
        self.id, self.name, self.trace_name, self.thread = id, name, name, thread
        self.time_range = Interval(start_us, end_us)
        self.overload_name, self.fwd_thread, self.sequence_nr, self.scope = "", 0, -1, 0
        self.input_shapes, self.concrete_inputs, self.kwinputs, self.stack = [], [], {}, []
        self.input_strides, self.input_types = [], []
        self.cpu_memory_usage = self.device_memory_usage = self.flops = 0
        self.is_user_annotation, self.kernels = False, []
        self.cpu_parent: FunctionEvent | None = None
        self.cpu_children: list = []
        self.__dict__.update(more)

    key = property(lambda self: self.name)
    cpu_time_total = property(lambda self: self.time_range.elapsed_us())
    self_cpu_time_total = property(
        lambda self: self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)
    )
    self_cpu_memory_usage = property(
        lambda self: self.cpu_memory_usage - sum(child.cpu_memory_usage for child in self.cpu_children)
    )
    self_device_memory_usage = property(
        lambda self: self.device_memory_usage - sum(child.device_memory_usage for child in self.cpu_children)
    )

    def append_cpu_child(self, child: FunctionEvent) -> None:
        """One that was run inside of it."""
        self.cpu_children.append(child)
        child.cpu_parent = self

    def __repr__(self) -> str:
        return (
            f"<FunctionEvent id={self.id} name={self.name} overload_name={self.overload_name} "
            f"cpu_time={self.cpu_time_str} start_us={self.time_range.start:.3f} end_us={self.time_range.end:.3f} "
            f"cpu_children={[child.id for child in self.cpu_children]} thread={self.thread} "
            f"input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage} seq_nr={self.sequence_nr}>"
        )


_SUMS = ("cpu_time_total", "self_cpu_time_total", "device_time_total", "self_device_time_total", "cpu_memory_usage",
         "self_cpu_memory_usage", "device_memory_usage", "self_device_memory_usage", "count")  # fmt: skip


class FunctionEventAvg(FormattedTimesMixin):
    """All events of one key, summed."""

    def __init__(self) -> None:
        self.key, self.count, self.node_id, self.is_async, self.is_remote = None, 0, 0, False, False
        self.use_device, self.device_type, self.is_legacy, self.flops = None, DeviceType.CPU, False, 0
        self.cpu_time_total = self.self_cpu_time_total = self.device_time_total = self.self_device_time_total = 0.0
        self.cpu_memory_usage = self.self_cpu_memory_usage = 0
        self.device_memory_usage = self.self_device_memory_usage = 0
        self.input_shapes = self.stack = self.scope = self.cpu_parent = self.cpu_children = self.overload_name = None
        self.is_user_annotation = None

    name = property(lambda self: self.key)

    def add(self, other) -> FunctionEventAvg:
        """Counts an event, or another sum, in."""
        if self.key is None:
            for name in ("key", "node_id", "cpu_parent", "cpu_children", "overload_name", "input_shapes", "stack",
                         "scope", "device_type", "use_device", "is_user_annotation"):  # fmt: skip
                setattr(self, name, getattr(other, name))
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.flops = (self.flops or 0) + (other.flops or 0)
        return self

    __iadd__ = add

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} "
            f"cpu_time={self.cpu_time_str} input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage}>"
        )


def flops_of(name: str, shapes: list, inputs: list) -> int:
    """Multiplications and additions of an operator that is known to take many, else 0."""
    try:
        if name in ("aten::mm", "aten::bmm"):
            return 2 * prod(shapes[0]) * shapes[1][-1]
        if name in ("aten::addmm", "aten::baddbmm"):
            return 2 * prod(shapes[1]) * shapes[2][-1]
        if name == "aten::conv2d":
            (n, _, *size), (out, *window) = shapes[0], shapes[1]
            (_, _, _, stride, padding, dilation, _), each = inputs, (0, 1)
            places = [(size[k] + 2 * padding[k] - dilation[k] * (window[1 + k] - 1) - 1) // stride[k] + 1 for k in each]
            return 2 * n * out * prod(places) * prod(window)
        return prod(shapes[0]) if name in ("aten::mul", "aten::add") and shapes[0] else 0
    except (IndexError, ValueError, TypeError):
        return 0  # other arguments than those that it is known for


class EventList(list):
    """Events in the order in which they began."""

    def __init__(self, events=(), use_device=None, profile_memory: bool = False, with_flops: bool = False) -> None:
        super().__init__(events)
        self._use_device, self._profile_memory, self._with_flops = use_device, profile_memory, with_flops

    def _like(self, events) -> EventList:
        return EventList(events, self._use_device, self._profile_memory, self._with_flops)

    def key_averages(self, group_by_input_shapes=False, group_by_stack_n=0, group_by_overload_name=False) -> EventList:
        """One sum for each name; apart by sizes of arguments, by the innermost `n` places of the stack, by overload."""
        found: dict = {}
        for event in self:
            key = [event.key, event.is_user_annotation]
            if group_by_overload_name:
                key.append(event.overload_name)
            if group_by_input_shapes:
                key.append(str(event.input_shapes))
            if group_by_stack_n:
                key += event.stack[:group_by_stack_n]
            found.setdefault(tuple(key), FunctionEventAvg()).add(event)
        sums = self._like(found.values())
        for each in sums:
            each.stack = each.stack[:group_by_stack_n]
            if not group_by_input_shapes:
                each.input_shapes = ""
            if not group_by_overload_name:
                each.overload_name = ""
        return sums

    def total_average(self) -> FunctionEventAvg:
        """The sum of all."""
        total = FunctionEventAvg()
        for event in self:
            total += event
            total.key = None
        total.key = "Total"
        return total

    self_cpu_time_total = property(lambda self: sum(event.self_cpu_time_total for event in self))

    def table(self, sort_by: str | None = None, row_limit: int = 100, max_src_column_width: int = 75,
              max_name_column_width: int = 55, max_shapes_column_width: int = 80, header: str | None = None,
              top_level_events_only: bool = False, time_unit: str | None = None) -> str:  # fmt: skip
        """The events as text, a row each; "" of none."""
        from ._profiler_table import table

        return table(self, sort_by, row_limit, (max_name_column_width, max_shapes_column_width, max_src_column_width),
                     header, top_level_events_only, time_unit)  # fmt: skip

    def export_chrome_trace(self, path: str) -> None:
        """Writes a trace that chrome://tracing and Perfetto show; compressed where the path ends in .gz."""
        from ._profiler_table import write_trace

        write_trace(self, path, {})

    def supported_export_stacks_metrics(self) -> list[str]:
        """What export_stacks() can weigh by."""
        return ["self_cpu_time_total", "self_cuda_time_total", "self_xpu_time_total", "self_privateuse1_time_total"]

    def export_stacks(self, path: str, metric: str) -> None:
        """A line for each event that has a stack and takes time: its places, outermost first, and the time."""
        if metric not in self.supported_export_stacks_metrics():
            raise ValueError(f"metric should be one of: {self.supported_export_stacks_metrics()}")
        blanks = str.maketrans(" ;\t\n", "____")
        with open(path, "w") as file:
            for event in self:
                value = int(event.self_cpu_time_total if metric == "self_cpu_time_total" else 0)
                if event.stack and value > 0:
                    places = ";".join(place.translate(blanks) for place in reversed(event.stack))
                    file.write(f"{places} {value}\n")

    def __str__(self) -> str:
        return self.table()


class MemRecordsAcc:
    """Records (event, ...) by the time at which their events start."""

    def __init__(self, mem_records) -> None:
        self._sorted = sorted(mem_records, key=lambda record: record[0].start_ns())
        self._starts = [record[0].start_ns() for record in self._sorted]

    def in_interval(self, start_ns, end_ns):
        """Those that start in [start_ns, end_ns], in their order."""
        yield from self._sorted[bisect_left(self._starts, start_ns) : bisect_right(self._starts, end_ns)]


__getattr__ = getter("torch.autograd.profiler_util")
