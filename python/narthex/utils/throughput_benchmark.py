"""torch.utils.ThroughputBenchmark: how many calls of a module several threads make in a second."""

from __future__ import annotations

import threading
from time import perf_counter
from typing import NamedTuple

__all__ = ["ExecutionStats", "ThroughputBenchmark", "format_time"]


def format_time(time_us=None, time_ms=None, time_s=None) -> str:
    """One time with its unit; exactly one of the three is given."""
    given = [(time_us, 1.0), (time_ms, 1e3), (time_s, 1e6)]
    if sum(value is not None for value, _ in given) != 1:
        raise AssertionError("format_time expects exactly one of time_us, time_ms, time_s")
    us = next(value * scale for value, scale in given if value is not None)
    for unit, scale in (("s", 1e6), ("ms", 1e3)):
        if us >= scale:
            return f"{us / scale:.3f}{unit}"
    return f"{us:.3f}us"


class ExecutionStats(NamedTuple):
    """What a benchmark found."""

    latency_avg_ms: float
    num_iters: int
    num_calling_threads: int

    @property
    def iters_per_second(self) -> float:
        """Of all threads together."""
        return self.num_calling_threads / (self.latency_avg_ms / 1000)

    @property
    def total_time_seconds(self) -> float:
        """From the first call to the last one."""
        return self.num_iters / self.iters_per_second

    def __str__(self) -> str:
        return "\n".join([
            "Average latency per example: " + format_time(time_ms=self.latency_avg_ms),
            f"Total number of iterations: {self.num_iters}",
            f"Total number of iterations per second (across all threads): {self.iters_per_second:.2f}",
            "Total time: " + format_time(time_s=self.total_time_seconds),
        ])  # fmt: skip


class ThroughputBenchmark:
    """Calls `module` with the inputs that add_input was given, in turn."""

    def __init__(self, module) -> None:
        self._module = module
        self._inputs: list = []

    def run_once(self, *args, **kwargs):
        """One call, to see that it is right."""
        return self._module(*args, **kwargs)

    def add_input(self, *args, **kwargs) -> None:
        """The arguments of a call."""
        self._inputs.append((args, kwargs))

    def benchmark(
        self,
        num_calling_threads: int = 1,
        num_warmup_iters: int = 10,
        num_iters: int = 100,
        profiler_output_path: str = "",
    ) -> ExecutionStats:
        """`num_iters` calls by so many threads, after `num_warmup_iters` of each that are not counted."""
        if not self._inputs:
            raise RuntimeError("Please provide benchmark inputs.Did you forget to call add_input()? ")
        if profiler_output_path:
            raise NotImplementedError("ThroughputBenchmark: profiler_output_path: operators are not recorded")
        ready, times, errors = threading.Barrier(num_calling_threads), [], []
        left, lock = [num_iters], threading.Lock()

        def call(k: int) -> None:
            args, kwargs = self._inputs[k % len(self._inputs)]
            self._module(*args, **kwargs)

        def work(number: int) -> None:
            try:
                for k in range(num_warmup_iters):
                    call(number + k)
                ready.wait()
                start = perf_counter()
                while True:
                    with lock:
                        left[0] -= 1
                        k = left[0]
                    if k < 0:
                        break
                    call(k)
                times.append(perf_counter() - start)
            except BaseException as error:
                errors.append(error)
                ready.abort()

        threads = [threading.Thread(target=work, args=(number,)) for number in range(num_calling_threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise next((e for e in errors if not isinstance(e, threading.BrokenBarrierError)), errors[0])
        return ExecutionStats(1000 * max(times) * num_calling_threads / num_iters, num_iters, num_calling_threads)
