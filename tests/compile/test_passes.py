"""NARTHEX_PASSES: passes are left out, stopped at, counted and timed; the numbers stay."""

import os
import re
import subprocess
import sys

import pytest

PROGRAM = """
import narthex as nt
made = []
def backend(gm, inputs):
    made.append(gm.graph._c.aot(True).compile("max-autotune"))
    return made[-1]
def f(x, w):
    y = (x * w + 1).tanh() + (x * w + 1).exp()
    z = y * 2
    z[1] = w
    return (z @ y.t()).sum(1)
nt.manual_seed(0)
x, w = nt.randn(12, 12), nt.randn(12, requires_grad=True)
out = nt.compile(f, backend=backend)(x, w)
out.sum().backward()
print(made[0].plan())
print("numbers", out.tolist(), w.grad.tolist())
"""


def run(passes: str, **more: str) -> tuple[str, str, str]:
    """The plans, the numbers, and what stands on stderr."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=os.environ | {"NARTHEX_PASSES": passes} | more,
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    if done.returncode:
        return "", "", done.stderr
    plan, numbers = done.stdout.split("numbers")
    return plan, numbers, done.stderr


@pytest.fixture(scope="module")
def all_passes() -> tuple[str, str, str]:
    return run("", NARTHEX_VERIFY_GRAPHS="1")


@pytest.mark.parametrize("name", ["fold", "cse", "dce", "place", "demand", "follow", "fuse", "reinplace", "plan"])
def test_a_pass_that_is_left_out(name: str, all_passes: tuple[str, str, str]) -> None:
    plan, numbers, error = run(f"skip={name}", NARTHEX_VERIFY_GRAPHS="1")
    assert numbers and numbers == all_passes[1], error
    assert ("= tile(" in plan) == (name != "fuse")
    assert ("aten::copy_(" in plan) == (name != "reinplace")
    assert plan.count("aten::exp") == all_passes[0].count("aten::exp")
    assert (plan == all_passes[0]) == (name in ("place", "fold", "demand", "follow")), plan
    places = re.findall(r"^  feature\+(\d+): ", plan.split("backward: program")[1], re.M)
    assert (len(set(places)) == len(places) > 2) == (name == "plan"), plan


def test_all_behind_one_are_left_out(all_passes: tuple[str, str, str]) -> None:
    plan, numbers, _ = run("stop=dce")
    assert numbers == all_passes[1]
    assert "= tile(" not in plan and "aten::copy_(" not in plan


def test_the_first_runs_alone(all_passes: tuple[str, str, str]) -> None:
    """With each run more the plan is the one of all passes sooner or later; the last run is named."""
    plans = []
    for n in range(0, 30, 3):
        plan, numbers, error = run(f"bisect={n}")
        assert numbers == all_passes[1]
        assert (f"run {n} is " in error) == (0 < n and "run" in error)
        plans.append(plan)
    assert "= tile(" not in plans[0] and plans[-1] == all_passes[0]


def test_times_and_what_is_wrong() -> None:
    times = run("times")[2]
    rows = [line.split()[1] for line in times.splitlines() if line.startswith("pass ")]
    everything = "functionalise split fold cse dce place demand follow fuse reinplace plan"
    assert rows == everything.split()
    for wrong in ("skip=split", "skip=nothing", "bisect=-1", "bisect=", "fold"):
        assert f"NARTHEX_PASSES: '{wrong}' is none of" in run(wrong)[2]
