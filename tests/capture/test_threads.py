"""First calls from several threads, and backends that call what they compile."""

import sys
import threading

import pytest

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
