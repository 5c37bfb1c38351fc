"""torch.multiprocessing.spawn and start_processes: what comes back, and what failures say, beside PyTorch."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os, pickle, re, signal, sys, time, warnings
import torch, torch.multiprocessing as mp
from torch.multiprocessing import ProcessContext, ProcessExitedException, ProcessRaisedException

def fine(i, a, b):
    print("fine", i, a + b, torch.ones(2).sum().item(), flush=True)
def raises(i):
    if i == 1:
        raise ValueError("mine")
    time.sleep(60)
def leaves(i):
    sys.exit(3 if i == 0 else 0)
def dies(i):
    os.kill(os.getpid(), signal.SIGKILL)

def told(call):
    try:
        print(call())
    except Exception as error:
        text = re.sub(r'File ".*?/spawn.py", line .*\\n.*\\n', "", str(error))
        again = pickle.loads(pickle.dumps(error))
        print(type(error).__name__, error.error_index, getattr(error, "exit_code", None),
              getattr(error, "signal_name", None), text.replace(__file__, "FILE"), str(again) == str(error))

if __name__ == "__main__":
    told(lambda: mp.spawn(fine, (5, 6)))
    told(lambda: mp.spawn(raises, nprocs=2))
    told(lambda: mp.spawn(leaves, nprocs=2))
    told(lambda: mp.spawn(dies))
    told(lambda: mp.start_processes(raises, nprocs=2, start_method="fork"))
    context = mp.start_processes(fine, (7, 8), nprocs=1, join=False, start_method="fork")
    joined = context.join(), context.join(), context.sentinels
    print(type(context) is ProcessContext, len(context.pids()), joined, [p.exitcode for p in context.processes])
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        mp.spawn(fine, (1, 2), start_method="fork")
    print([(w.category.__name__, str(w.message)) for w in seen])
    import torch.multiprocessing.spawn
    print(callable(torch.multiprocessing.spawn), torch.multiprocessing.spawn is not None)
"""


def test_processes_are_as_pytorchs(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    said = []
    for command in ([], ["-m", "narthex", "run"]):
        command = [sys.executable, *command, str(tmp_path / "program.py")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr
        said.append(done.stdout)
    assert "ValueError: mine" in said[0] and said[1] == said[0]


def test_names_of_yesterday_and_tomorrow() -> None:
    import narthex as nt

    with pytest.raises(AttributeError, match="of_tomorrow"):
        nt.multiprocessing.of_tomorrow  # noqa: B018
