"""First calls from several threads, backends that call what they compile, and what others see of a trace that runs."""

import abc
import collections.abc
import signal
import sys
import threading

import narthex as torch
import pytest
from narthex import _C

from .conftest import compiled, ones


@pytest.fixture
def impatient():
    """Threads take turns as often as they can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def at_once(count, work):
    """work(k) in `count` threads that begin together; what they raise is raised here."""
    barrier, errors = threading.Barrier(count), []

    def run(k):
        try:
            barrier.wait()
            work(k)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def slow(graph, inputs):
    """A backend of Python code, in which other threads get their turn."""
    for _ in range(200):
        len(inputs)
    return graph


def breaks(x, k):
    y = x * k
    print(end="")
    return y + k


@pytest.mark.filterwarnings("ignore:torch.compile")
@pytest.mark.parametrize("function", [lambda x, k: x + k, breaks], ids=["whole", "breaks"])
def test_first_calls_of_many_threads(function, impatient):
    for _ in range(5):
        capture = compiled(function, backend=slow, dynamic=False)

        def work(k, capture=capture):
            for n in range(3):
                x = ones(k % 12 + 1)
                assert capture(x, k % 12).tolist() == function(x, k % 12).tolist(), n

        at_once(16, work)
        assert capture.entries <= 2 * 8


def test_more_shapes_at_once_than_are_kept(impatient):
    capture = compiled(lambda x: x * x.shape[0], backend=slow, dynamic=True)

    def work(k):
        for n in range(1, 20):
            assert capture(ones(n + k)).tolist() == [n + k] * (n + k)

    at_once(8, work)


def test_a_backend_that_calls_the_function():
    """Each trace would add the eighth segment, or all of them would, before the first one is done."""
    depth, seen = 0, []

    def calls_it(graph, inputs):
        nonlocal depth
        depth += 1
        if depth < 20:
            seen.append(capture(ones(1), depth).item())
        return graph

    capture = compiled(lambda x, k: x + k, backend=calls_it, dynamic=False)
    for k in range(100, 104):
        assert capture(ones(1), k).item() == k + 1
    assert seen == [depth + 2 for depth in range(len(seen))]
    assert capture.entries <= 8


# ---- while a trace runs nobody else does


def test_a_call_inside_of_a_run_leaves_its_values():
    """What the guards have read is read by the run until it ends, whatever another call reads meanwhile."""
    layer, inner, again = torch.nn.Linear(2, 2), [], []

    def backend(graph, inputs):
        def run(*args):
            if again:
                again.clear()
                layer.weight = torch.nn.Parameter(ones(2, 2))
                inner.extend(f(ones(2)))
            return graph(*args)

        return run

    f = torch.compile(lambda x: (x + 1, layer.weight, layer.bias), backend=backend)
    f(ones(2))
    was = layer.weight
    again.append(True)
    outer = f(ones(2))
    assert outer[1] is was and outer[2] is layer.bias and inner[1] is layer.weight is not was
    assert f(ones(2))[1] is layer.weight and f.entries == 1
    layer.weight = was
    assert f(ones(2))[1] is was


class Holder:
    def __init__(self):
        self.t, self.parts = ones(2), [1]


class Shape(abc.ABC):  # noqa: B024
    pass


def stores_fakes(x, holder, value):
    """Between the stores: code that could let others in, by file, by abc, by a long way."""
    holder.t = x * 2
    known = isinstance(value, Shape) or isinstance(value, collections.abc.Mapping) or isinstance(value, (int, Shape))
    for k in range(200):
        holder.t = holder.t + k
    text = "".join(str(k) for k in holder.parts)
    holder.t = x + len(text) + known
    return holder.t


def test_no_other_thread_sees_a_fake(impatient):
    holder, fakes, over = Holder(), [], threading.Event()

    def looks():
        while not over.is_set():
            if holder.t._is_fake:
                fakes.append(holder.t)

    watchers = [threading.Thread(target=looks) for _ in range(2)]
    for watcher in watchers:
        watcher.start()
    try:
        for _ in range(20):
            value = type("Value", (), {})()  # which abc knows nothing of yet
            capture = compiled(stores_fakes, backend=lambda graph, inputs: graph, fullgraph=True)
            assert capture(ones(2), holder, value).tolist() == [2, 2]
    finally:
        over.set()
        for watcher in watchers:
            watcher.join()
    assert not fakes


def test_no_listener_sees_a_fake():
    """A listener is Python code, which lets other threads in."""
    holder, seen = Holder(), []
    _C.set_capture_log(lambda event, **info: seen.append((event, holder.t._is_fake)))
    try:
        compiled(stores_fakes)(ones(2), holder, 1)
    finally:
        _C.set_capture_log(None)
    assert {"line", "opcode", "input", "graph"} <= {event for event, _ in seen}
    assert not any(fake for _, fake in seen)


def test_a_signal_handler_runs_outside():
    holder, seen = Holder(), []

    def handler(number, frame):
        seen.append((holder.t._is_fake, isinstance(holder, Shape)))

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 1e-3, 1e-3)
    try:
        while len(seen) < 20:
            assert compiled(stores_fakes, fullgraph=True)(ones(2), holder, 1).tolist() == [3, 3]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert set(seen) == {(False, False)}
