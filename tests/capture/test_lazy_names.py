"""Names of the package that are loaded when they are first asked for, first asked for inside a captured function."""

import subprocess
import sys

PROGRAM = """
import narthex as nt
def f(x):
    nt.set_autocast_enabled("cpu", True)
    y = x @ x
    nt.set_autocast_enabled("cpu", False)
    return y, hasattr(nt, "nothing_of_the_kind")
before = set(vars(nt))
y, there = nt.compile(f, fullgraph=True)(nt.ones(2, 2))
print(y.dtype, there, "set_autocast_enabled" in before, "set_autocast_enabled" in vars(nt))
"""


def test_first_use_is_captured() -> None:
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert run.stdout.split() == ["torch.bfloat16", "False", "False", "True"], run.stderr
