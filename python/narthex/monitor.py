"""torch.monitor: events that a program logs, and counts that become events each window of time."""

from collections import deque
from datetime import datetime
from enum import Enum
from time import monotonic

STAT_EVENT = "torch.monitor.Stat"
_handlers: dict = {}


class Aggregation(Enum):
    """What becomes of the numbers of a window."""

    VALUE = 0
    MEAN = 2
    COUNT = 3
    SUM = 4
    MAX = 5
    MIN = 6


VALUE, MEAN, COUNT, SUM, MAX, MIN = Aggregation
data_value_t = int | float | bool | str


class Event:
    """What happened: its name, when, and {word: number, bool or text}."""

    def __init__(self, name: str, timestamp: datetime, data: dict) -> None:
        good = isinstance(name, str) and isinstance(timestamp, datetime) and isinstance(data, dict)
        if not good or not all(isinstance(k, str) and isinstance(v, data_value_t) for k, v in data.items()):
            raise TypeError(
                "Event: needs name: str, timestamp: datetime, data: a dict of numbers, bools and texts by words"
            )
        self.name, self.timestamp, self.data = name, timestamp, dict(data)


class EventHandlerHandle:
    """What register_event_handler gives, for unregister_event_handler."""


def register_event_handler(callback) -> EventHandlerHandle:
    """Calls `callback` with every event from now on."""
    handle = EventHandlerHandle()
    _handlers[handle] = callback
    return handle


def unregister_event_handler(handler: EventHandlerHandle) -> None:
    """Ends that."""
    _handlers.pop(handler, None)


def log_event(event: Event) -> None:
    """Hands an event to all handlers."""
    for handler in tuple(_handlers.values()):
        handler(event)


def _aggregate(kind: Aggregation, values) -> float:
    if not values:
        return 0.0
    if kind is VALUE:
        return values[-1]
    if kind is COUNT:
        return float(len(values))
    if kind is MEAN:
        return sum(values) / len(values)
    return {SUM: sum, MAX: max, MIN: min}[kind](values)


class Stat:
    """Numbers of a window of `window_size`, or `max_samples` of them: when it ends, what `aggregations` make of them is
    logged as an event. get() has that of the last window."""

    def __init__(self, name: str, aggregations, window_size, max_samples: int = 2**63 - 1) -> None:
        self.name, self._kinds, self._values = name, tuple(aggregations), deque()
        self._seconds, self._most, self._begin = window_size.total_seconds(), max_samples, monotonic()
        self._last: list = []

    @property
    def count(self) -> int:
        """How many numbers the window has so far."""
        self._end()
        return len(self._values)

    def add(self, v) -> None:
        """One more number."""
        self._end()
        self._values.append(float(v))
        if len(self._values) >= self._most:
            self._close()

    def get(self) -> dict:
        """{aggregation: number} of the window that ended last."""
        self._end()
        return {kind: _aggregate(kind, self._last) for kind in self._kinds}

    def _end(self) -> None:
        if (passed := monotonic() - self._begin) >= self._seconds:
            self._close()
            if passed >= 2 * self._seconds:
                self._last = []
            self._begin = monotonic()

    def _close(self) -> None:
        self._last = list(self._values)
        self._values.clear()
        if self._last:
            data = {f"{self.name}.{kind.name.lower()}": _aggregate(kind, self._last) for kind in self._kinds}
            log_event(Event(STAT_EVENT, datetime.now(), data))


class TensorboardEventHandler:
    """Writes the events of Stats as scalars of a SummaryWriter."""

    def __init__(self, writer) -> None:
        self._writer = writer

    def __call__(self, event: Event) -> None:
        if event.name == STAT_EVENT:
            for word, value in event.data.items():
                self._writer.add_scalar(word, value, walltime=event.timestamp.timestamp())
