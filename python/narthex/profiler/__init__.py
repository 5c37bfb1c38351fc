"""torch.profiler: times of the ranges that a program names; operators are not recorded (torch.autograd.profiler)."""

from __future__ import annotations

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
    """False: that is PyTorch's recorder."""
    return False


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
    if use_gzip:
        raise NotImplementedError("tensorboard_trace_handler: use_gzip=True is not there")

    def handle(profiled: profile) -> None:
        import os
        import socket
        import time

        os.makedirs(dir_name, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        profiled.export_chrome_trace(os.path.join(dir_name, f"{worker}.{time.time_ns()}.pt.trace.json"))

    return handle


class profile(_profiler.profile):
    """Records ranges. With a `schedule`, `step()` ends a step; `on_trace_ready(self)` is called where one says SAVE."""

    def __init__(self, *, activities=None, schedule: Callable | None = None, on_trace_ready: Callable | None = None,
                 **options) -> None:  # fmt: skip
        wanted = set(activities or ())
        if wanted - supported_activities():
            names = ", ".join(sorted(activity.name for activity in wanted - supported_activities()))
            raise NotImplementedError(f"profile: activities of {names} are not recorded; give ProfilerActivity.CPU")
        super().__init__(True, **options)
        self.schedule = schedule or (lambda step: ProfilerAction.RECORD)
        self.on_trace_ready, self.step_num = on_trace_ready, 0
        self.current_action = self.schedule(0)

    def _records(self) -> bool:
        return self.current_action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)

    def start(self) -> None:
        """As entering the block."""
        _profiler._warn()
        if self._records():
            _profiler._running.append(self)

    def stop(self) -> None:
        """As leaving the block."""
        recorded = self in _profiler._running
        if recorded:
            _profiler._running.remove(self)
        if recorded and self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def step(self) -> None:
        """Ends a step and begins the next."""
        before, self.step_num = self.current_action, self.step_num + 1
        self.current_action = self.schedule(self.step_num)
        if before is ProfilerAction.RECORD_AND_SAVE:
            self.stop()
        if self._records() and self not in _profiler._running:
            self._found = []
            _profiler._running.append(self)

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *exception) -> None:
        self.stop()


__getattr__ = getter("torch.profiler")
