"""torch.futures: results that come later, from other threads."""

import threading
from typing import Generic, TypeVar

__all__ = ["Future", "collect_all", "wait_all"]


T = TypeVar("T")


class Future(Generic[T]):
    """A value or an error that somebody sets once; wait() is what others do meanwhile."""

    def __init__(self, *, devices=None) -> None:
        self._event, self._lock, self._callbacks = threading.Event(), threading.Lock(), []
        self._value = self._error = None

    def done(self) -> bool:
        """Whether it has a value or an error."""
        return self._event.is_set()

    def wait(self):
        """The value, once it is there; an error is raised."""
        self._event.wait()
        if self._error is not None:
            raise self._error
        return self._value

    def value(self):
        """The value, which must be there."""
        if not self.done():
            raise RuntimeError("Future::value() may only be called on completed futures")
        return self.wait()

    def _finish(self, value, error) -> None:
        with self._lock:
            if self.done():
                raise RuntimeError("Future can only be marked completed once")
            self._value, self._error = value, error
            self._event.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def set_result(self, result) -> None:
        """Its value; callbacks run, in this thread."""
        self._finish(result, None)

    def set_exception(self, result) -> None:
        """Its error, an exception."""
        if not isinstance(result, Exception):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._finish(None, result)

    def _when_done(self, callback) -> None:
        with self._lock:
            if not self.done():
                self._callbacks.append(callback)
                return
        callback()

    def add_done_callback(self, callback) -> None:
        """Calls callback(self) when it is done, at once if it is."""
        self._when_done(lambda: callback(self))

    def then(self, callback) -> "Future":
        """A future of callback(self)."""
        following: Future = Future()

        def run() -> None:
            try:
                following.set_result(callback(self))
            except Exception as error:
                following.set_exception(error)

        self._when_done(run)
        return following


def collect_all(futures) -> Future:
    """A future of the list of these futures, when all are done."""
    futures, whole, lock = list(futures), Future(), threading.Lock()
    left = len(futures)

    def one_done(future: Future) -> None:
        nonlocal left
        with lock:
            left -= 1
            last = left == 0
        if last:
            whole.set_result(futures)

    for future in futures:
        future.add_done_callback(one_done)
    if not futures:
        whole.set_result(futures)
    return whole


def wait_all(futures) -> list:
    """Their values, when all are done; the first error is raised."""
    return [future.wait() for future in collect_all(futures).wait()]
