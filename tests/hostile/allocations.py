"""Fails every allocation of every scenario once, of scenarios with very many a part, evenly spread.

For each N: the N-th allocation of the library fails. The run must then raise MemoryError, or recover and give the right
numbers; nothing may stay allocated that was not before; and the next run must be right.

    python -m tests.hostile.allocations [gpt | bridge] [words of a scenario's name ...]
"""

from __future__ import annotations

import contextlib
import gc
import sys
import time
from collections.abc import Callable
from typing import Any

from narthex import _C

from tests.hostile.scenarios import SCENARIOS

MOST = 4000  # runs with a failure in one scenario


def blocks_left() -> int:
    """Allocated blocks once garbage is collected and the device has let go of what its work held."""
    gc.collect()
    with contextlib.suppress(Exception):  # a failure of earlier work that nobody waited for
        _C.synchronize("npu:0")
    return _C.alloc_live()


def fails(run: Callable[[], list[Any]], n: int) -> bool:
    """Whether a run has an n-th allocation; it fails then."""
    _C.alloc_fail_at(n)
    with contextlib.suppress(Exception):
        run()
    failed = _C.alloc_failed()
    _C.alloc_fail_at(0)
    return failed


def count(run: Callable[[], list[Any]]) -> int:
    """How many allocations a run makes that goes well."""
    low, high = 0, 1
    while fails(run, high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fails(run, middle) else (low, middle)
    return low


def sweep(name: str, run: Callable[[], list[Any]]) -> list[str]:
    """The faults that were found, as lines."""
    for _ in range(3):
        expected = run()
    gc.collect()
    gc.freeze()  # what is alive now stays alive: later collections pass it by
    _C.alloc_watch(True)
    faults: list[str] = []
    total = count(run)
    apart = -(-total // MOST)
    run()
    live = blocks_left()
    raised = recovered = 0
    started = time.monotonic()
    for n in range(1, total + 1, apart):
        if len(faults) >= 10:
            break
        error: BaseException | None = None
        got = None
        _C.alloc_fail_at(n)
        try:
            got = run()
        except Exception as caught:  # noqa: BLE001  (any exception is looked at)
            error = caught.with_traceback(None)
        failed = _C.alloc_failed()
        _C.alloc_fail_at(0)
        if error is None:
            recovered += failed
            if got != expected:
                faults.append(f"N={n}: no error and wrong numbers")
        else:
            raised += 1
            if not isinstance(error, MemoryError):
                faults.append(f"N={n}: {type(error).__name__}: {error}")
        del error
        if run() != expected:
            faults.append(f"N={n}: the next run is wrong")
        if (now := blocks_left()) != live:  # after a good run: what a run keeps for the next one is there again
            faults.append(f"N={n}: {now - live:+d} blocks are still allocated")
            live = now
    _C.alloc_watch(False)
    seconds = time.monotonic() - started
    print(
        f"{name:50} {raised + recovered:4} of {total:5} allocations failed: {raised} raised, {recovered} recovered, "
        f"{len(faults)} faults, {seconds:.1f} s",
        flush=True,
    )
    return [f"{name}: {fault}" for fault in faults]


def main(wanted: list[str]) -> int:
    faults: list[str] = []
    scenarios = SCENARIOS
    if wanted[:1] == ["bridge"]:  # in a process of its own: here `torch` is PyTorch
        from tests.hostile.bridge import SCENARIOS as scenarios

        wanted = wanted[1:]
    elif wanted[:1] == ["gpt"]:
        from tests.hostile.gpt import scenarios as make

        scenarios, wanted = make(), wanted[1:]
    for name, run in scenarios.items():
        if not wanted or any(text in name for text in wanted):
            faults += sweep(name, run)
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
