"""The team of threads: how many, that it stays, sleeps, serves several callers, and lets other Python threads run."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import Any

import narthex as nt
import pytest
from narthex import _C


def program(text: str, **environment: str) -> str:
    """What a program of its own prints."""
    kept = {k: v for k, v in os.environ.items() if k not in ("NARTHEX_THREADS", "OMP_NUM_THREADS")}
    command = [sys.executable, "-c", "import narthex as nt\nfrom narthex import _C\n" + text]
    done = subprocess.run(command, env={**kept, **environment}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_as_many_as_the_process_may_use() -> None:
    processors = len(os.sched_getaffinity(0))
    number, why = program("print(*_C.explain_threads(), sep='|')").split("|")
    assert int(number) <= processors and ("processor" in why)
    one = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); print(*_C.explain_threads(), sep='|')"
    assert program(one) == "1|the process may run on 1 processor"


def test_as_many_as_were_asked_for() -> None:
    ask = "print(nt.get_num_threads(), _C.explain_threads()[1])"
    assert program(ask, NARTHEX_THREADS="3", OMP_NUM_THREADS="5") == "3 NARTHEX_THREADS=3"
    assert program(ask, OMP_NUM_THREADS="5") == "5 OMP_NUM_THREADS=5"
    assert program("nt.set_num_threads(4); " + ask, NARTHEX_THREADS="3") == "4 set_num_threads(4)"
    assert program(ask, NARTHEX_THREADS="none") != "none"


def test_the_same_threads_stay() -> None:
    """Small work after large work neither ends threads nor makes some."""
    text = """
import os
def threads(): return sorted(map(int, os.listdir("/proc/self/task")))
nt.set_num_threads(8)
_C.set_piece(1 << 16)
large, small = nt.ones(1 << 20), nt.ones(1 << 15)
large + large
first = threads()
for _ in range(20):
    small + small
    large + large
nt.set_num_threads(2)
large + large
print(len(first), threads() == first)
"""
    assert program(text) == "8 True"


def test_idle_members_sleep() -> None:
    text = """
import resource, time
nt.set_num_threads(7)
a = nt.ones(1 << 21)
for _ in range(10): a + a
def used():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
time.sleep(0.05)
before = used()
time.sleep(1)
print(used() - before < 0.01)
"""
    assert program(text) == "True"


def test_a_forked_child_works_alone() -> None:
    text = """
import os
nt.set_num_threads(3)
a = nt.arange(1 << 20).float()
expected = (a + a).sum().item()
child = os.fork()
if child == 0:
    os._exit(0 if (a + a).sum().item() == expected and len(os.listdir("/proc/self/task")) == 1 else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert program(text) == "0"


@pytest.fixture()
def _fine_pieces() -> Any:
    threads = nt.get_num_threads()
    nt.set_num_threads(3)
    _C.set_piece(1 << 12)
    yield
    nt.set_num_threads(threads)
    _C.set_piece(0)


@pytest.mark.usefixtures("_fine_pieces")
def test_several_callers() -> None:
    """Each gets its own numbers, whoever helps; a product in a batch is a caller inside a caller."""
    nt.manual_seed(0)
    a, b = nt.randn(6, 130, 70), nt.randn(6, 70, 150)
    expected = [((a * k) @ b).sum(1) for k in range(8)]
    wrong: list[int] = []

    def work(k: int) -> None:
        for _ in range(20):
            if not nt.equal(((a * k) @ b).sum(1), expected[k]):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.usefixtures("_fine_pieces")
def test_the_first_failure_is_told() -> None:
    index = nt.zeros(200_000, dtype=nt.int64)
    index[150_000], index[70_001] = 99, 77
    for _ in range(5):
        with pytest.raises((RuntimeError, IndexError), match="77"):
            nt.ones(10).gather(0, index)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("threads", [1, 2])
def test_another_python_thread_runs_during_long_work(threads: int, compiled: bool) -> None:
    """It counts while a product is made; when the interpreter's lock is kept it cannot, whatever the machine does."""
    kept = nt.get_num_threads()
    nt.set_num_threads(threads)
    sys_interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # nothing but the operator gives the lock away
    a, counted, ready, stop = nt.ones(1500, 1500), [0], threading.Event(), threading.Event()
    square = nt.compile(lambda a: a @ a, mode="max-autotune") if compiled else lambda a: a @ a
    square(a)

    def count() -> None:
        while not stop.wait(0.0001):
            counted[0] += 1
            ready.set()

    counter = threading.Thread(target=count)
    try:
        counter.start()
        ready.wait()
        before = counted[0]
        for _ in range(20):  # a busy machine may have no turn for it during one; between them the lock is kept
            square(a)
            during = counted[0] - before
            if during:
                break
    finally:
        stop.set()
        counter.join()
        sys.setswitchinterval(sys_interval)
        nt.set_num_threads(kept)
    assert during > 0
