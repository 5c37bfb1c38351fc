"""Fails every allocation of every scenario once.

For each N: the N-th allocation of the library fails. The run must then raise MemoryError, or recover and give the right
numbers; nothing may stay allocated that was not before; and the next run must be right.
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

LIMIT = 20000


def blocks_left() -> int:
    """Allocated blocks once garbage is collected and the device has let go of what its work held."""
    gc.collect()
    with contextlib.suppress(Exception):  # a failure of earlier work that nobody waited for
        _C.synchronize("npu:0")
    return _C.alloc_live()


def sweep(name: str, run: Callable[[], list[Any]]) -> list[str]:
    """The faults that were found, as lines."""
    for _ in range(3):
        expected = run()
    gc.collect()
    gc.freeze()  # what is alive now stays alive: later collections pass it by
    _C.alloc_watch(True)
    faults: list[str] = []
    run()
    live = blocks_left()
    raised = recovered = n = 0
    started = time.monotonic()
    while n < LIMIT and len(faults) < 10:
        n += 1
        error: BaseException | None = None
        got = None
        _C.alloc_fail_at(n)
        try:
            got = run()
        except Exception as caught:  # noqa: BLE001  (any exception is looked at)
            error = caught.with_traceback(None)
        failed = _C.alloc_failed()
        _C.alloc_fail_at(0)
        if not failed:
            break
        if error is None:
            recovered += 1
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
        f"{name:40} {n - 1:5} allocations failed: {raised} raised, {recovered} recovered, "
        f"{len(faults)} faults, {seconds:.1f} s",
        flush=True,
    )
    return [f"{name}: {fault}" for fault in faults]


def main(wanted: list[str]) -> int:
    faults: list[str] = []
    scenarios = SCENARIOS
    if wanted == ["bridge"]:  # in a process of its own: here `torch` is PyTorch
        from tests.hostile.bridge import SCENARIOS as scenarios
    for name, run in scenarios.items():
        if not wanted or any(text in name for text in wanted):
            faults += sweep(name, run)
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
