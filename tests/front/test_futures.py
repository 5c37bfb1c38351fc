"""torch.futures beside PyTorch's."""

import threading

import narthex as nt
import pytest

from tests.front.both import LIBS, both


def story(lib) -> list:
    future = lib.futures.Future()
    seen = [future.done()]
    future.add_done_callback(lambda done: seen.append(done.value()))
    following = future.then(lambda done: done.wait() + 1).then(lambda done: done.wait() * 10)
    future.set_result(4)
    future.add_done_callback(lambda done: seen.append("late"))
    return [*seen, future.done(), future.wait(), following.wait()]


def test_results_and_callbacks() -> None:
    mine, theirs = both(story)
    assert mine == theirs == [False, 4, "late", True, 4, 50]


def test_errors() -> None:
    def caught(lib) -> list:
        future, again, found = lib.futures.Future(), lib.futures.Future(), []
        future.set_exception(ValueError("mine"))
        again.set_result(1)
        following = future.then(lambda done: done.wait())
        calls = [future.wait, future.value, following.wait, lambda: again.set_result(2), lib.futures.Future().value]
        for call in (*calls, lambda: again.set_exception("text")):
            try:
                found.append(call())
            except Exception as error:
                found.append(type(error))
        return found

    mine = caught(nt)
    assert mine[:2] == [ValueError, ValueError] and all(issubclass(kind, Exception) for kind in mine)
    theirs = caught(LIBS[1])
    assert [kind.__name__ for kind in mine[3:]] == [kind.__name__ for kind in theirs[3:]]


def test_of_several() -> None:
    for lib in LIBS:
        futures = [lib.futures.Future() for _ in range(3)]
        whole = lib.futures.collect_all(futures)
        for number, future in enumerate(reversed(futures)):
            assert not whole.done()
            future.set_result(number)
        assert [future.value() for future in whole.wait()] == [2, 1, 0]
        assert lib.futures.wait_all(futures) == [2, 1, 0]
        assert lib.futures.collect_all([]).wait() == [] if lib is nt else True


def test_waiting_for_another_thread() -> None:
    future: nt.futures.Future[int] = nt.futures.Future()
    thread = threading.Timer(0.05, future.set_result, (7,))
    thread.start()
    assert future.wait() == 7
    thread.join()
    with pytest.raises(RuntimeError, match="only be marked completed once"):
        future.set_result(8)
