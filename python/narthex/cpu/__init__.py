"""torch.cpu: what programs that are written for any device ask the CPU, which has one device and does its work at once;
and, where torch.cuda has them, statistics of its memory."""

from .. import _memory
from . import amp

__all__ = [
    "Event", "Stream", "StreamContext", "amp", "current_device", "current_stream", "device_count", "is_available",
    "is_initialized", "max_memory_allocated", "memory_allocated", "memory_reserved", "memory_stats",
    "reset_peak_memory_stats", "set_device", "stream", "synchronize",
]  # fmt: skip


class Stream:
    """Work on the CPU is done when the call returns, so that nothing waits."""

    def __init__(self, priority: int = -1) -> None:
        pass

    def wait_stream(self, stream) -> None:
        """Nothing to wait for."""

    def record_event(self) -> None:
        """Nothing to record."""

    def wait_event(self, event) -> None:
        """Nothing to wait for."""


class Event:
    """As Stream: done when it is recorded."""

    def query(self) -> bool:
        """True: all work is done."""
        return True

    def record(self, stream=None) -> None:
        """Nothing to record."""

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def wait(self, stream=None) -> None:
        """Nothing to wait for."""


class StreamContext:
    """with torch.cpu.stream(s): the stream is the current one inside."""

    def __init__(self, stream) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            _streams.append(self.stream)

    def __exit__(self, *error) -> None:
        if self.stream is not None:
            _streams.pop()


_streams = [Stream()]  # the innermost last


def stream(stream) -> StreamContext:
    """A context in which the stream is the current one."""
    return StreamContext(stream)


def current_stream(device=None) -> Stream:
    """The stream of the innermost context, or the default one."""
    return _streams[-1]


def synchronize(device=None) -> None:
    """Work is done already."""


def is_available() -> bool:
    """True."""
    return True


def is_initialized() -> bool:
    """True."""
    return True


def device_count() -> int:
    """1: all processors are one device."""
    return 1


def current_device() -> str:
    """The name of the one device."""
    return "cpu"


def set_device(device) -> None:
    """There is one device."""


def _of_memory(name: str):
    return _memory.of_device(name, lambda device: "cpu")


memory_stats = _of_memory("memory_stats")
memory_allocated = _of_memory("memory_allocated")
max_memory_allocated = _of_memory("max_memory_allocated")
memory_reserved = _of_memory("memory_reserved")
reset_peak_memory_stats = _of_memory("reset_peak_memory_stats")
