"""DataLoader with worker processes: PyTorch's batches, seeds and errors; what happens when a process is killed."""

import gc
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from functools import partial

import narthex as nt
import numpy as np
import pytest
import torch
from test_data import equal

BOTH = (nt, torch)


def make_dataset(module):
    """A dataset whose samples tell what the process that made them drew."""

    class Samples(module.utils.data.Dataset):
        def __len__(self):
            return 23

        def __getitem__(self, i):
            info = module.utils.data.get_worker_info()
            if i == 17 and os.environ.get("FAIL"):
                raise {"KeyError": KeyError, "ValueError": ValueError}[os.environ["FAIL"]]("seventeen")
            drawn = (module.rand(2), random.random(), np.random.rand())
            return i, module.full((2, 2), float(i)), *drawn, info.id, info.num_workers, info.seed

    return Samples()


def make_stream(module):
    """A stream of which each worker gives its own part."""

    class Stream(module.utils.data.IterableDataset):
        def __iter__(self):
            info = module.utils.data.get_worker_info()
            return iter(range(info.id * 10, info.id * 10 + 5 + info.id))

    return Stream()


def test_batches_and_seeds_are_pytorchs():
    seen = []
    for module in BOTH:
        module.manual_seed(7)
        loader = module.utils.data.DataLoader(make_dataset(module), 4, shuffle=True, num_workers=2)
        seen.append([list(loader), list(loader), module.rand(3)])
    equal(*seen)


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": None},
        {"batch_size": 5, "drop_last": True, "prefetch_factor": 1},
        {"batch_size": 3, "persistent_workers": True, "shuffle": True},
    ],
    ids=str,
)
def test_options(options):
    seen = []
    for module in BOTH:
        module.manual_seed(3)
        loader = module.utils.data.DataLoader(make_dataset(module), num_workers=2, **options)
        seen.append([list(loader), list(loader), module.rand(1)])
    equal(*seen)


@pytest.mark.parametrize(
    "options", [{"batch_size": 2}, {"batch_size": None}, {"batch_size": 4, "drop_last": True}], ids=str
)
def test_streams(options):
    seen = []
    for module in BOTH:
        loader = module.utils.data.DataLoader(make_stream(module), num_workers=3, persistent_workers=True, **options)
        seen.append([list(loader), list(loader)])
    equal(*seen)


@pytest.mark.parametrize("kind", ["KeyError", "ValueError"])
def test_errors_of_a_worker(kind, monkeypatch):
    monkeypatch.setenv("FAIL", kind)
    texts = []
    for module in BOTH:
        loader = module.utils.data.DataLoader(make_dataset(module), 4, num_workers=2)
        with pytest.raises((KeyError, ValueError)) as caught:
            list(loader)
        lines = str(caught.value).splitlines()
        assert caught.type.__name__ == kind
        texts.append([lines[0], lines[1], lines[-1]])
    assert texts[0] == texts[1] and texts[0][0] == f"Caught {kind} in DataLoader worker process 0."


def test_worker_init_fn():
    def init(worker):
        if worker == 1:
            raise RuntimeError("not I")

    for module in BOTH:
        loader = module.utils.data.DataLoader(range(6), 2, num_workers=2, worker_init_fn=init)
        with pytest.raises(RuntimeError, match="(?s)Caught RuntimeError in DataLoader worker process 1.*not I"):
            list(loader)
    seen = []
    loader = nt.utils.data.DataLoader(range(4), num_workers=2, worker_init_fn=lambda w: nt.manual_seed(w))
    seen = list(loader)
    assert [batch.item() for batch in seen] == [0, 1, 2, 3]


class Slow(nt.utils.data.Dataset):
    def __len__(self):
        return 100

    def __getitem__(self, i):
        if i == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return i


def test_killed_worker_and_timeout():
    with pytest.raises(RuntimeError, match=r"DataLoader worker \(pid\(s\) \d+\) exited unexpectedly") as caught:
        list(nt.utils.data.DataLoader(Slow(), num_workers=2))
    assert "is killed by signal: Killed" in str(caught.value.__cause__)
    with pytest.raises(RuntimeError, match="DataLoader timed out after 0.2 seconds"):
        list(nt.utils.data.DataLoader(range(3), num_workers=1, timeout=0.2, collate_fn=lambda _: time.sleep(3)))


def test_pass_that_is_left_ends_its_workers():
    loader = nt.utils.data.DataLoader(range(100), 2, num_workers=2)
    batches = iter(loader)
    next(batches)
    processes = [worker.process for worker in batches.workers]
    del batches
    gc.collect()
    assert not any(process.is_alive() for process in processes)


class Collecting(nt.utils.data.Dataset):
    """Collects garbage in the worker, where copies of the parent's loaders may lie."""

    def __len__(self):
        return 6

    def __getitem__(self, i):
        gc.collect()
        return i


def test_a_forked_copy_of_a_loader_ends_nothing():
    other = iter(nt.utils.data.DataLoader(range(100), num_workers=2))
    next(other)
    cycle = [other]
    cycle.append(cycle)
    gc.disable()
    try:
        del other, cycle  # garbage that the next workers take along
        assert len(list(nt.utils.data.DataLoader(Collecting(), num_workers=2))) == 6
    finally:
        gc.enable()
        gc.collect()


def test_persistent_workers_stay():
    loader = nt.utils.data.DataLoader(range(8), 2, num_workers=2, persistent_workers=True)
    list(loader)
    first = [worker.process.pid for worker in loader._workers.workers]
    iterator = iter(loader)
    next(iterator)  # a pass that is left in the middle
    assert [batch.tolist() for batch in loader] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert [worker.process.pid for worker in loader._workers.workers] == first


def test_options_that_are_wrong():
    for module in BOTH:
        for options, error in (
            ({"prefetch_factor": 2}, ValueError),
            ({"multiprocessing_context": "fork"}, ValueError),
            ({"multiprocessing_context": "spoon", "num_workers": 1}, ValueError),
            ({"multiprocessing_context": 3, "num_workers": 1}, TypeError),
        ):
            with pytest.raises(error):
                module.utils.data.DataLoader(range(3), **options)
    with pytest.warns(UserWarning, match="no accelerator is found"):
        assert len(list(nt.utils.data.DataLoader(range(3), pin_memory=True))) == 3


def test_pickles():
    import copy
    import pickle

    whole = nt.arange(6.0).reshape(2, 3)
    for tensor in (whole, whole.t(), nt.empty(0, 2), nt.nn.Parameter(whole), whole.to(nt.bfloat16)[:, 1]):
        made = pickle.loads(pickle.dumps(tensor))
        assert type(made) is type(tensor) and made.tolist() == tensor.tolist() and made.dtype is tensor.dtype
        assert made.requires_grad == tensor.requires_grad and made.shape == tensor.shape
        assert copy.copy(tensor).data_ptr() == tensor.data_ptr() and type(copy.copy(tensor)) is type(tensor)
    kept = (nt.float32, nt.device("cpu"), nt.Size([2, 3]))
    assert pickle.loads(pickle.dumps(kept)) == kept
    with pytest.raises(RuntimeError, match="non-leaf tensor which requires_grad"):
        pickle.dumps(nt.ones(2, requires_grad=True) * 2)


SPAWNED = """
import torch
from torch.utils.data import DataLoader, TensorDataset, get_worker_info
import helper

class Doubled(torch.utils.data.Dataset):
    def __init__(self): self.x = torch.arange(4.0)
    def __len__(self): return 4
    def __getitem__(self, i): return helper.double(self.x[i])

if __name__ == "__main__":
    loader = DataLoader(Doubled(), 2, num_workers=2, multiprocessing_context="{method}")
    print([batch.tolist() for batch in loader])
"""


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_torch_is_narthex_in_spawned_workers(method, tmp_path):
    (tmp_path / "program.py").write_text(SPAWNED.format(method=method))
    text = "import torch\nassert torch.__spec__.name == 'narthex'\ndef double(x): return x * 2\n"
    (tmp_path / "helper.py").write_text(text)
    command = [sys.executable, "-m", "narthex", "run", str(tmp_path / "program.py")]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0 and run.stdout == "[[0.0, 2.0], [4.0, 6.0]]\n", run.stderr


def test_a_worker_that_starts_is_not_interrupted():
    """Ctrl-C between the fork and the worker's first line is dropped there, not raised in it."""
    code = """
        import os, signal, sys, threading, narthex
        from narthex.utils.data import DataLoader
        os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), signal.SIGINT))
        print([batch.tolist() for batch in DataLoader(range(4), 2, num_workers=2)])
    """
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60)
    assert run.stdout == "[[0, 1], [2, 3]]\n" and not run.stderr, run.stderr


def test_interrupt_leaves_nothing(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent("""
            import time, torch
            from torch.utils.data import DataLoader
            def slow(batch):
                time.sleep(600)
            loader = iter(DataLoader(range(9), num_workers=2, collate_fn=slow))
            print(*[worker.process.pid for worker in loader.workers], flush=True)
            next(loader)
        """)
    )
    command = [sys.executable, "-m", "narthex", "run", str(program)]
    heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a job in the background ignores it
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    run = subprocess.Popen(command, **pipes, text=True, start_new_session=True, preexec_fn=heard)
    workers = list(map(int, run.stdout.readline().split()))
    os.killpg(run.pid, signal.SIGINT)  # as a terminal does
    _, errors = run.communicate(timeout=200)
    assert errors.count("Traceback") == 1 and errors.rstrip().endswith("KeyboardInterrupt"), errors
    for worker in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(worker, 0)


LATE_NUMPY = """
import sys
import torch

class Drawn(torch.utils.data.Dataset):
    def __len__(self): return 6
    def __getitem__(self, i):
        late = "numpy" not in sys.modules
        import numpy
        return numpy.random.rand(), late

if __name__ == "__main__":
    torch.manual_seed(3)
    drawn = list(torch.utils.data.DataLoader(Drawn(), 3, num_workers=2))
    print([numbers.tolist() for numbers, _ in drawn])
    print(drawn[0][1][0].item(), file=sys.stderr)
"""


def test_numpy_is_seeded_when_a_worker_imports_it(tmp_path):
    """PyTorch imports it in any case; a worker that does not need it starts several times as fast without."""
    (tmp_path / "program.py").write_text(LATE_NUMPY)
    runs = [
        subprocess.run([sys.executable, *way, tmp_path / "program.py"], capture_output=True, text=True, timeout=120)
        for way in ((), ("-m", "narthex", "run"))
    ]
    assert runs[0].stdout == runs[1].stdout and len(runs[0].stdout) > 50, runs[1].stderr
    assert runs[1].stderr.splitlines()[-1] == "True"
