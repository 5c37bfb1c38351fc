"""NARTHEX_VERIFY=1: programs run as without it, each run compared with eager mode. The C test breaks kernels."""

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import narthex as nt, narthex.compat.torch_npu
from tests.compile.gpt import train
for device in ("cpu", "npu:0"):
    eager = train(nt, None, device, steps=3)
    for mode in ("max-autotune", "reduce-overhead"):
        assert train(nt, mode, device, steps=3) == eager
def drawn(x):
    return nt.nn.functional.dropout(x * 2, 0.5) + nt.randn(3, 4)
for mode in (None, "max-autotune", "reduce-overhead"):
    nt.manual_seed(4)
    x = nt.ones(3, 4)
    print([(nt.compile(drawn, mode=mode) if mode else drawn)(x).sum().item() for _ in range(3)])
"""


def test_programs_pass():
    root = Path(__file__).resolve().parent.parent.parent
    where = os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(root)])
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=os.environ | {"NARTHEX_VERIFY": "1", "PYTHONPATH": where},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-4000:]
    assert len(set(run.stdout.splitlines())) == 1 and run.stdout.count("\n") == 3
