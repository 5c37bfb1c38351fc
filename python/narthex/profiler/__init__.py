"""torch.profiler: what a program runs, with times (torch.autograd.profiler), step by step where it has a schedule."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from enum import Enum, IntEnum

from .._absent import getter
from ..autograd import profiler as _profiler
from ..autograd.profiler import record_function

__all__ = [
    "ProfilerAction", "ProfilerActivity", "kineto_available", "profile", "record_function", "schedule",
    "supported_activities", "tensorboard_trace_handler",
]  # fmt: skip


class ProfilerAction(Enum):
    """What a profile does in a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


class ProfilerActivity(IntEnum):
    """What may be recorded; here the CPU."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


def supported_activities() -> set:
    """The CPU."""
    return {ProfilerActivity.CPU}


def kineto_available() -> bool:
    """True: profiles of this module are there."""
    return True


def schedule(*, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0,
             skip_first_wait: int = 0) -> Callable:  # fmt: skip
    """What to do in which step: `skip_first` steps nothing, then wait, warmup, active, `repeat` times or for ever."""
    if not (wait >= 0 and warmup >= 0 and active > 0 and repeat >= 0 and skip_first >= 0):
        raise AssertionError("Invalid profiler schedule arguments")

    def action(step: int) -> ProfilerAction:
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        whole = wait + warmup + active
        if repeat and step // whole >= repeat:
            return ProfilerAction.NONE
        place = step % whole
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < whole - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


def tensorboard_trace_handler(dir_name: str, worker_name: str | None = None, use_gzip: bool = False) -> Callable:
    """An `on_trace_ready` that writes each trace into a folder, under a name that TensorBoard's plugin looks for."""

    def handle(profiled: profile) -> None:
        import os
        import socket
        import time

        os.makedirs(dir_name, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json" + ".gz" * use_gzip
        profiled.export_chrome_trace(os.path.join(dir_name, name))

    return handle


def _wanted(activities) -> set:
    wanted = set(supported_activities() if activities is None else activities)
    if not wanted:
        raise AssertionError("No valid profiler activities found")
    for activity in sorted(wanted - supported_activities()):
        if activity != ProfilerActivity.CUDA:
            name = activity.name
            raise NotImplementedError(f"profile: activities of {name} are not recorded; give ProfilerActivity.CPU")
    return wanted


class profile(_profiler.profile):
    """Records what runs. With a `schedule`, `step()` ends a step; `on_trace_ready(self)` is called where it says so."""

    def __init__(self, *, activities=None, schedule: Callable | None = None, on_trace_ready: Callable | None = None,
                 record_shapes: bool = False, profile_memory: bool = False, with_stack: bool = False,
                 with_flops: bool = False, with_modules: bool = False, experimental_config=None,
                 execution_trace_observer=None, acc_events: bool = False, use_cuda: bool | None = None,
                 custom_trace_id_callback: Callable | None = None,
                 post_processing_timeout_s: float | None = None) -> None:  # fmt: skip
        self.activities = _wanted(activities)
        if execution_trace_observer is not None:
            raise NotImplementedError("profile: execution_trace_observer is not there")
        super().__init__(
            True, use_cuda=bool(use_cuda), record_shapes=record_shapes, profile_memory=profile_memory,
            with_stack=with_stack, with_flops=with_flops, with_modules=with_modules,
            experimental_config=experimental_config, acc_events=acc_events,
            custom_trace_id_callback=custom_trace_id_callback, post_processing_timeout_s=post_processing_timeout_s,
        )  # fmt: skip
        self.schedule, self.record_steps = schedule or (lambda step: ProfilerAction.RECORD), schedule is not None
        self.on_trace_ready, self.step_num, self.step_rec_fn = on_trace_ready, 0, None
        self.current_action, self._began, self._more = self.schedule(0), False, {}

    def set_custom_trace_id_callback(self, callback: Callable | None) -> None:
        """Has `callback` name the traces that begin from here on."""
        self.custom_trace_id_callback = callback

    def get_trace_id(self) -> str | None:
        """The name of the trace that began last; None before the first."""
        return self.trace_id or None

    def _records(self) -> bool:
        return self.current_action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)

    def _begin_step(self) -> None:
        if self.record_steps:
            self.step_rec_fn = record_function(f"ProfilerStep#{self.step_num}")
            self.step_rec_fn.__enter__()

    def _end_step(self) -> None:
        if self.step_rec_fn is not None:
            self.step_rec_fn.__exit__(None, None, None)
            self.step_rec_fn = None

    def start(self) -> None:
        """As entering the block."""
        if ProfilerActivity.CUDA in self.activities:
            warnings.warn("CUDA is not available, disabling CUDA profiling", stacklevel=2)
        if ProfilerActivity.CPU not in self.activities:
            raise AssertionError("No activities specified for the profiler")
        if self._records():
            self._begin()
        self._began = self._began or self._records()
        self._begin_step()

    def stop(self) -> None:
        """As leaving the block."""
        if self._thread == 0 and self._records():
            raise AssertionError("Profiler must be initialized before stopping trace")
        self._end_step()
        was_on = self._is_on
        self._end()
        if was_on and self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def step(self) -> None:
        """Ends a step and begins the next."""
        self._end_step()
        before, self.step_num = self.current_action, self.step_num + 1
        self.current_action = self.schedule(self.step_num)
        if before is ProfilerAction.RECORD_AND_SAVE:
            self.stop()
        if self._records() and not self._is_on:
            self._begin()
            self._began = True
        self._begin_step()

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *exception) -> None:
        self.stop()

    def events(self) -> _profiler.EventList:
        """What has been recorded, event by event."""
        if not self._began:
            raise AssertionError("Profiler must be initialized before accessing events")
        return self._read()

    def key_averages(self, group_by_input_shape=False, group_by_stack_n=0, group_by_overload_name=False):
        """One sum for each name."""
        if not self._began:
            raise AssertionError("Profiler must be initialized before getting key averages")
        return super().key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def add_metadata(self, key: str, value: str) -> None:
        """Text that stands in the traces that are written."""
        self._more[key] = str(value)

    def add_metadata_json(self, key: str, value: str) -> None:
        """A value as JSON that stands in the traces that are written."""
        import json

        self._more[key] = json.loads(value)

    preset_metadata_json = add_metadata_json

    def export_chrome_trace(self, path: str, use_python_export: bool = False) -> None:
        """Writes the events as a trace, compressed where the path ends in .gz; Python writes it in any case."""
        from ..autograd._profiler_table import write_trace

        names = ("record_shapes", "profile_memory", "with_stack", "with_flops")
        options = {name: int(getattr(self, name)) for name in names}
        write_trace(self._read(), path, options | self._more)

    profiler = property(lambda self: self)


__getattr__ = getter("torch.profiler")
