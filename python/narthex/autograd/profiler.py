"""Profiles: operators, nodes of a backward, compiled graphs with their steps, and the ranges that a program names.

    with torch.profiler.profile() as profiled:
        with torch.profiler.record_function("forward"):
            ...
    print(profiled.key_averages().table(sort_by="self_cpu_time_total"))

A profile holds what ran in the thread that started it, while it was on; one that is started inside of another one makes
that one wait.
"""

from __future__ import annotations

import sys
import threading
import warnings

from .. import _C
from .._absent import getter
from ._ranges import record_function
from .profiler_util import EventList, FunctionEvent, FunctionEventAvg, MemRecordsAcc, flops_of

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "MemRecordsAcc", "profile", "record_function"]

_OPERATOR, _EVALUATE, _NODE, _RANGE, _GRAPH, _STEP = range(6)  # kinds, as in src/core/core.h
_SCOPES = {_NODE: 1, _RANGE: 7}
_TYPES = {
    "float32": "float", "float64": "double", "float16": "c10::Half", "bfloat16": "c10::BFloat16", "int64": "long int",
    "int32": "int", "int16": "short int", "int8": "signed char", "uint8": "unsigned char",
    "complex32": "c10::complex<c10::Half>", "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
}  # fmt: skip


def _named(kind: int, name: str) -> tuple[str, str]:
    """The name as PyTorch shows it, and the overload."""
    if kind in (_EVALUATE, _NODE):
        name = "torch::autograd::AccumulateGrad" if name == "AccumulateGrad" else name
        return ("autograd::engine::evaluate_function: " + name if kind == _EVALUATE else name), ""
    if kind in (_RANGE, _GRAPH):
        return "ProfilerStep*" if name.startswith("ProfilerStep#") else name, ""
    if name.startswith("fused"):
        return " ".join(word.partition(".")[0] for word in name.split(" ")), ""
    name, _, overload = name.partition(".")
    return name, overload


def _place(code, line: int) -> str:
    """A frame, its file told from where Python looks for modules."""
    file = code.co_filename
    roots = [root.rstrip("/") + "/" for root in sys.path if root and file.startswith(root.rstrip("/") + "/")]
    return f"{file[len(max(roots, key=len, default='')) :]}({line}): {code.co_name}"


def _arguments(found: list) -> dict:
    tensors = [each if isinstance(each, tuple) else None for each in found]
    return {
        "input_shapes": [each[0] if each else [] for each in tensors],
        "input_strides": [each[1] if each else [] for each in tensors],
        "input_types": [_TYPES.get(each[2], each[2]) if each else "Scalar" for each in tensors],
        "concrete_inputs": [None if isinstance(each, tuple) else each for each in found],
    }


def _event(number: int, raw: tuple, start: int, native_thread: int, with_flops: bool) -> FunctionEvent:
    name, kind, _, begin, end, sequence, bytes_, elsewhere, arguments, stack = raw
    whole, (name, overload) = name, _named(kind, name)
    event = FunctionEvent(
        number, name, 1, (begin - start) / 1e3, (end - start) / 1e3, overload_name=overload, scope=_SCOPES.get(kind, 0),
        sequence_nr=sequence, fwd_thread=int(kind in (_EVALUATE, _NODE) and sequence >= 0), cpu_memory_usage=bytes_,
        device_memory_usage=elsewhere, is_user_annotation=kind == _RANGE,
        trace_name=whole if kind == _RANGE else name, native_thread=native_thread,
        stack=[_place(*frame) for frame in stack or ()], **_arguments(arguments),
    )  # fmt: skip
    if with_flops and kind == _OPERATOR:
        event.flops = flops_of(name, event.input_shapes, event.concrete_inputs)
    return event


def _off(use_cuda: bool, use_device: str | None) -> None:
    if use_cuda:
        warnings.warn("The attribute `use_cuda` will be deprecated soon, please use ``use_device = 'cuda'`` instead.",
                      FutureWarning, stacklevel=3)  # fmt: skip
    device = "cuda" if use_cuda else use_device
    if device == "cuda":
        warnings.warn("CUDA is not available, disabling CUDA profiling", stacklevel=3)
    elif device is not None:
        raise NotImplementedError(f"profile: times on {device} are not recorded")


class profile:
    """Records what runs in this thread. `record_shapes`: sizes, types and numbers of operators' arguments;
    `profile_memory`: bytes that each event takes, less those that it gives back; `with_stack`: where the program was;
    `with_flops`: products and sums of a few operators."""

    def __init__(self, enabled: bool = True, *, use_cuda: bool = False, use_device: str | None = None,
                 record_shapes: bool = False, with_flops: bool = False, profile_memory: bool = False,
                 with_stack: bool = False, with_modules: bool = False, use_kineto: bool = False, use_cpu: bool = True,
                 experimental_config=None, acc_events: bool = False, custom_trace_id_callback=None,
                 post_processing_timeout_s: float | None = None,
                 activity_filters: dict | None = None) -> None:  # fmt: skip
        refused = {"with_modules": with_modules, "activity_filters": activity_filters}
        for name, value in refused.items():
            if value:
                raise NotImplementedError(f"profile: {name} is not there")
        _off(use_cuda, use_device)
        self.enabled, self.record_shapes, self.with_flops = enabled, record_shapes or with_flops, with_flops
        self.profile_memory, self.with_stack, self.acc_events = profile_memory, with_stack, acc_events
        self.custom_trace_id_callback, self.trace_id = custom_trace_id_callback, ""
        self._log = None  # what records, or has recorded and is not read yet
        self._is_on, self._start, self._thread = False, 0, 0
        self._events = EventList([], None, profile_memory, with_flops)

    def default_trace_id(self) -> str:
        """A name for a trace: 32 digits that no other one has."""
        import uuid

        return uuid.uuid4().hex.upper()

    def create_trace_id(self) -> str:
        """What custom_trace_id_callback names the next trace, or a name of its own."""
        return self.custom_trace_id_callback() if self.custom_trace_id_callback else self.default_trace_id()

    def _begin(self) -> None:
        self.trace_id = self.create_trace_id()
        if not self.acc_events:
            self._events = self._events._like([])
        self._thread = threading.get_native_id()
        self._log = _C.profile_start(self.record_shapes, self.profile_memory, self.with_stack)
        self._is_on = True

    def _end(self) -> None:
        if self._is_on:
            _C.profile_stop(self._log)
            self._is_on = False

    def _read(self) -> EventList:
        if self._log is not None and not self._is_on:
            raw, log = _C.profile_events(self._log), []
            start = self._start or (raw[0][3] if raw else 0)
            first = len(self._events) + 1
            for number, each in enumerate(raw, first):
                log.append(_event(number, each, start, self._thread, self.with_flops))
                if each[2] >= 0:
                    log[each[2]].append_cpu_child(log[-1])
            self._events.extend(log)
            self._log = None
        return self._events

    def __enter__(self) -> profile:
        if self.enabled:
            if self._is_on:
                raise RuntimeError("Profiler context manager is not reentrant")
            self._begin()
        return self

    def __exit__(self, *exception) -> None:
        self._end()

    function_events = property(lambda self: self._read(), doc="What has been recorded.")

    def key_averages(self, group_by_input_shape=False, group_by_stack_n=0, group_by_overload_name=False) -> EventList:
        """One sum for each name."""
        return self._read().key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def total_average(self) -> FunctionEventAvg:
        """The sum of all events."""
        return self._read().total_average()

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
    ) -> str:
        """The events as text."""
        widths = max_src_column_width, max_name_column_width, max_shapes_column_width
        return self._read().table(sort_by, row_limit, *widths, header, top_level_events_only)

    def export_chrome_trace(self, path: str, metadata: dict | None = None, use_python_export: bool = False) -> None:
        """Writes the events as a trace, with `metadata` in it; Python writes it in any case."""
        from ._profiler_table import write_trace

        write_trace(self._read(), path, dict(metadata or {}))

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Writes the places of events, with times, as tools that draw flames read them."""
        if not self.with_stack:
            raise AssertionError("export_stacks() requires with_stack=True")
        self._read().export_stacks(path, metric)

    def __str__(self) -> str:
        return str(self._read())

    self_cpu_time_total = property(lambda self: self._read().self_cpu_time_total)


class _Ranges:
    """Ranges for a tool of a vendor's."""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
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


__getattr__ = getter("torch.autograd.profiler")
