"""Ctrl-C at moments drawn at random: in the forward, the backward, a trace, a compile, a replay, a wait for npu:0.

Each time KeyboardInterrupt must come, nothing may stay allocated that was not before, and the next run must give the
right losses. Another process sends the signal, so that it comes in the middle of a call into C as well.

    python -m tests.hostile.interrupts [rounds]
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import narthex as torch
from narthex import _C

from tests.hostile.allocations import blocks_left
from tests.hostile.gpt import DEVICES, MODES, Training

PATIENCE = 60  # seconds after which a signal counts as lost
SENDER = """
import os, signal, sys, time
for line in sys.stdin:
    time.sleep(float(line))
    os.kill(os.getppid(), signal.SIGINT)
"""


class Sender:
    def __init__(self) -> None:
        command = [sys.executable, "-S", "-c", SENDER]
        # a session of its own: a real Ctrl-C is for this process alone
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, text=True, start_new_session=True)
        self.ignored: list[Any] = []
        sys.unraisablehook = self.ignored.append

    def interrupt(self, run: Callable[[], Any], delay: float) -> bool:
        """Runs again and again until the signal comes, after `delay` seconds; False: it never came."""
        end = time.monotonic() + PATIENCE
        try:
            self.send(delay)
            while time.monotonic() < end:
                run()
                if self.ignored:  # Python met it where nothing can be raised: in a destructor or a callback
                    self.ignored.clear()
                    self.send(0)
        except KeyboardInterrupt:
            # As in PyTorch, no_grad is written in Python: a signal between its bytecodes leaves the mode as it is.
            torch.set_grad_enabled(True)
            return True
        return False

    def send(self, delay: float) -> None:
        self.process.stdin.write(f"{delay}\n")
        self.process.stdin.flush()


def check(name: str, run: Callable[[], Any], sender: Sender, rounds: int, draw: random.Random) -> list[str]:
    for _ in range(3):
        expected = run()
    began = time.monotonic()
    run()
    takes = time.monotonic() - began
    _C.alloc_watch(True)
    run()
    live = blocks_left()
    faults = []
    began = time.monotonic()
    for i in range(rounds):
        if not sender.interrupt(run, draw.uniform(0, 1.5 * takes)):
            return [f"{name}: round {i}: a signal was lost"]
        if run() != expected:
            faults.append(f"{name}: round {i}: the next run is wrong")
        if (now := blocks_left()) != live:
            faults.append(f"{name}: round {i}: {now - live:+d} blocks are still allocated")
            live = now
    _C.alloc_watch(False)
    seconds = time.monotonic() - began
    print(f"{name:40} {rounds} interrupts, {len(faults)} faults, {seconds:.1f} s", flush=True)
    return faults


def users_handler(training: Training, sender: Sender) -> list[str]:
    """A handler of the user's own that does not raise stops nothing, and is called."""
    called: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: called.append(number))
    expected = training.run()
    sender.send(0.05)
    end, faults = time.monotonic() + PATIENCE, []
    while not called and time.monotonic() < end and not faults:
        if training.run() != expected:
            faults.append("a handler that does not raise: the run is wrong")
    signal.signal(signal.SIGINT, before)
    return faults if called else [*faults, "a handler of the user's own was not called"]


def main(rounds: int) -> int:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sender, draw, faults = Sender(), random.Random(1), []
    sizes = {"layers": 2, "width": 64, "heads": 2, "block_size": 32, "batch": 12}
    for mode in MODES:
        for device in DEVICES:
            for fresh in (True, False) if mode else (False,):
                name = f"{mode or 'eager'}, {device}{', with its compile' if fresh else ''}"
                faults += check(name, Training(device, mode, fresh, **sizes).run, sender, rounds, draw)
    faults += users_handler(Training("cpu", "max-autotune", False, **sizes), sender)
    sender.process.kill()
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100))
