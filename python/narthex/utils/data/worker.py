"""Worker processes of a loader, both sides of them.

A worker gets (number, keys) through its pipe and sends (number, its id, batch) back through another one; a batch may be
an `ExceptionWrapper`, or None when the worker's stream has ended. A worker leaves when it gets None, or when its parent
is gone.
The parent keeps `prefetch_factor` batches a worker on the way and hands them out in the order of the numbers.
"""

import os
import sys
from itertools import cycle
from multiprocessing.connection import wait
from multiprocessing.reduction import ForkingPickler
from time import monotonic

from ... import _C
from ..._utils import ExceptionWrapper
from ...autograd._ranges import record_function
from . import fetch as fetching
from .dataloader import _BaseDataLoaderIter

LOOK_SECONDS = 5.0  # how often a worker looks whether its parent lives, and how long a parent waits for a worker to go


# ---- in the worker ---------------------------------------------------------------------------------------------------
def _seed(base_seed: int, id: int) -> int:
    """Seeds torch, random and numpy as PyTorch seeds them in worker `id`; numpy once something imports it."""
    import random

    random.seed(base_seed + id)
    _C.manual_seed(base_seed + id)
    entropy = [id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    if "numpy.random" in sys.modules:
        _seed_numpy(sys.modules["numpy.random"], entropy)
    else:
        sys.meta_path.insert(0, _NumpyFinder(entropy))
    return base_seed + id


def _seed_numpy(numpy_random, entropy: list) -> None:
    numpy_random.seed(numpy_random.SeedSequence(entropy).generate_state(4))


class _NumpyFinder:
    """Waits for numpy.random, to seed it. To import numpy takes longer than a worker's start, and few need it."""

    def __init__(self, entropy: list) -> None:
        self.entropy = entropy

    def find_spec(self, name: str, path=None, target=None):
        if name != "numpy.random":
            return None
        from importlib.machinery import PathFinder

        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path)
        if spec is not None:
            execute = spec.loader.exec_module

            def exec_module(module) -> None:
                execute(module)
                _seed_numpy(module, self.entropy)

            spec.loader.exec_module = exec_module
        return spec


def _start_sender(results):
    """A function that sends pickled bytes without making its caller wait, so that the next batch is begun meanwhile."""
    from queue import SimpleQueue
    from threading import Thread

    waiting = SimpleQueue()

    def send() -> None:
        try:
            while (item := waiting.get()) is not None:
                results.send_bytes(item)
        except OSError:
            pass  # the parent is gone or does not want it any more

    thread = Thread(target=send, daemon=True)
    thread.start()
    return waiting.put, thread


def _pickled(number: int, id: int, batch, where: str):
    try:
        return ForkingPickler.dumps((number, id, batch))
    except Exception:
        failure = ExceptionWrapper(where=where)
        try:
            ForkingPickler.dumps(failure.kind)
        except Exception:
            failure.kind = RuntimeError
        return ForkingPickler.dumps((number, id, failure))


def work(id, n_workers, dataset, fetch_options, base_seed, init, keys_in, results) -> None:
    """A worker process, from its start to its end."""
    from multiprocessing import parent_process
    from signal import SIG_DFL, SIG_IGN, SIG_UNBLOCK, SIGINT, SIGTERM, pthread_sigmask, signal

    signal(SIGINT, SIG_IGN)  # Ctrl-C reaches the parent, which ends its workers
    pthread_sigmask(SIG_UNBLOCK, [SIGINT])  # _Worker blocked it: one that came meanwhile is dropped here
    signal(SIGTERM, SIG_DFL)
    _C.set_num_threads(1)
    where = f"in DataLoader worker process {id}"
    put, sender = _start_sender(results)
    fetch = failed = None
    fetching.info = fetching.WorkerInfo(id, n_workers, _seed(base_seed, id), dataset)
    try:
        if init is not None:
            init(id)
    except Exception:
        failed = ExceptionWrapper(where=where)
    while True:
        while not keys_in.poll(LOOK_SECONDS):
            if not parent_process().is_alive():
                return
        try:
            task = keys_in.recv()
        except (EOFError, OSError):
            break
        if task is None:
            break
        number, keys = task
        if number is None:  # a new pass: a stream begins again
            fetch = None
            continue
        try:
            if failed is None:
                fetch = fetch or fetching.make_fetch(dataset, *fetch_options)
                batch = fetch(keys)
            else:
                batch, failed = failed, None
        except fetching.Ended:
            batch = None
        except Exception:
            batch = ExceptionWrapper(where=where)
        put(_pickled(number, id, batch, where))
        del batch
    put(None)
    sender.join(LOOK_SECONDS)


# ---- in the parent ---------------------------------------------------------------------------------------------------
class _Worker:
    """A process with its two pipes. `busy`: it may be given keys in this pass."""

    def __init__(self, context, id: int, loader, base_seed: int) -> None:
        from signal import SIG_BLOCK, SIG_SETMASK, SIGINT, pthread_sigmask

        keys_out, self.keys = context.Pipe(duplex=False)
        self.results, results_in = context.Pipe(duplex=False)
        arguments = (id, loader.num_workers, loader.dataset, loader._fetch_options(), base_seed)
        self.process = context.Process(
            target=work, args=(*arguments, loader.worker_init_fn, keys_out, results_in), daemon=True
        )
        self.busy = True
        before = pthread_sigmask(SIG_BLOCK, [SIGINT])  # the process is not interrupted before it can ignore it
        try:
            self.process.start()
        finally:
            pthread_sigmask(SIG_SETMASK, before)
        keys_out.close()
        results_in.close()

    def give(self, task) -> None:
        """Sends keys; a worker that is gone is noticed where its batch is waited for."""
        try:
            self.keys.send(task)
        except OSError:
            pass


class Workers(_BaseDataLoaderIter):
    """Iterates over a loader's batches, made by its workers."""

    def __init__(self, loader) -> None:
        import multiprocessing

        self.loader, self.workers, self.owner = loader, [], os.getpid()
        base_seed = _C.draw_seed(loader.generator)
        context = loader.multiprocessing_context or multiprocessing
        for id in range(loader.num_workers):
            self.workers.append(_Worker(context, id, loader, base_seed))
        self._begin()

    def _begin(self) -> None:
        self.keys = iter(self.loader._keys())
        self.next_in, self.sent, self.given = cycle(self.workers), 0, 0
        self.on_the_way, self.ready = {}, {}  # number -> worker; number -> batch
        for worker in self.workers:
            worker.busy = True
        for _ in range(self.loader.prefetch_factor * len(self.workers)):
            self._send()

    def begin_again(self) -> None:
        """The next pass with the same workers; what the last one left on the way is thrown away."""
        while self.on_the_way:
            self._receive()
        for worker in self.workers:
            worker.give((None, None))
        self._begin()

    def _send(self) -> None:
        """The next keys, to the next worker that has samples left."""
        if not any(worker.busy for worker in self.workers):
            return
        for keys in self.keys:
            worker = next(worker for worker in self.next_in if worker.busy)
            self.on_the_way[self.sent] = worker
            worker.give((self.sent, keys))
            self.sent += 1
            break

    def __iter__(self):
        return self

    def __next__(self):
        try:
            with record_function("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"):
                batch = self._take()
        except StopIteration:
            raise
        except BaseException:  # Ctrl-C as well
            self.close(at_once=True)
            raise
        if isinstance(batch, ExceptionWrapper):
            batch.reraise()
        return batch

    def _take(self):
        """The batch that is due. A worker whose stream has ended is left out from then on."""
        while self.on_the_way or self.ready:
            due = min(self.ready, default=None)
            if due is not None and (not self.loader.in_order or due < min(self.on_the_way, default=due + 1)):
                self._send()
                return self.ready.pop(due)
            worker, number, batch = self._receive()
            if batch is None:
                worker.busy = False
                self._send()
            else:
                self.ready[number] = batch
        if not self.loader.persistent_workers:
            self.close()
        raise StopIteration

    def _receive(self):
        waited = [worker for worker in self.workers if worker in self.on_the_way.values()]
        by_pipe = {worker.results: worker for worker in waited}
        ends = {worker.process.sentinel: worker for worker in waited}
        found = wait([*by_pipe, *ends], self.loader.timeout or None)
        if not found:
            raise RuntimeError(f"DataLoader timed out after {self.loader.timeout} seconds")
        pipe = next((each for each in found if each in by_pipe), None)
        worker = by_pipe[pipe] if pipe is not None else ends[found[0]]
        try:
            number, _, batch = worker.results.recv()
        except (EOFError, OSError):
            self._tell_of_death(worker.process)
        del self.on_the_way[number]
        return worker, number, batch

    @staticmethod
    def _tell_of_death(process) -> None:
        from signal import strsignal

        process.join(LOOK_SECONDS)
        code = process.exitcode
        how = f"is killed by signal: {strsignal(-code)}. " if code and code < 0 else f"left with status {code}."
        cause = RuntimeError(f"DataLoader worker (pid {process.pid}) {how}")
        raise RuntimeError(f"DataLoader worker (pid(s) {process.pid}) exited unexpectedly") from cause

    def close(self, at_once: bool = False) -> None:
        """Ends the workers: asks them, and after a while makes them."""
        workers, self.workers, self.on_the_way, self.ready = self.workers, [], {}, {}
        until = monotonic() + (0 if at_once else LOOK_SECONDS)
        for worker in workers:
            worker.give(None)
            worker.results.close()
        for worker in workers:
            worker.process.join(max(0.0, until - monotonic()))
            if worker.process.is_alive():
                worker.process.terminate()
                worker.process.join()
            worker.keys.close()

    def __del__(self) -> None:
        # A forked child has a copy that ends nothing; before the interpreter ends, multiprocessing ends its daemons.
        if self.workers and self.owner == os.getpid() and not sys.is_finalizing():
            self.close()
