"""torch.compiler.set_stance, and TORCH_LOGS from outside."""

import os
import subprocess
import sys

import narthex as nt
import pytest


@pytest.fixture
def compiled():
    graphs = []

    def backend(gm, example_inputs):
        graphs.append(gm)
        return gm.forward

    def f(x):
        return x + 1

    made = nt.compile(f, backend=backend, dynamic=False)
    made.n_graphs = lambda: len(graphs)
    yield made
    nt.compiler.set_stance("default")


def test_force_eager(compiled):
    nt.compiler.set_stance("force_eager")
    assert compiled(nt.ones(2)).tolist() == [2, 2] and compiled.n_graphs() == 0
    nt.compiler.set_stance("default")
    assert compiled(nt.ones(2)).tolist() == [2, 2] and compiled.n_graphs() == 1
    with nt.compiler.set_stance("force_eager"):
        assert compiled(nt.ones(3)).tolist() == [2, 2, 2] and compiled.n_graphs() == 1
        with nt.compiler.set_stance("default"):
            compiled(nt.ones(4))
        compiled(nt.ones(5))
    assert compiled.n_graphs() == 2


def test_eager_on_recompile(compiled):
    compiled(nt.ones(2))
    with nt.compiler.set_stance("eager_on_recompile"):
        assert compiled(nt.ones(2)).tolist() == [2, 2] and compiled(nt.ones(3)).tolist() == [2, 2, 2]
        assert compiled.n_graphs() == 1
    compiled(nt.ones(3))
    assert compiled.n_graphs() == 2


def test_fail_on_recompile(compiled):
    with nt.compiler.set_stance("fail_on_recompile"):
        with pytest.raises(RuntimeError, match="^Detected recompile when torch.compile stance is 'fail_on_recompile'"):
            compiled(nt.ones(2))
    compiled(nt.ones(2))
    with nt.compiler.set_stance("fail_on_recompile"):
        assert compiled(nt.ones(2)).tolist() == [2, 2]
        with pytest.raises(
            RuntimeError, match=r"function name: 'f', line number: \d+\n    triggered by the .*\n    - .*x"
        ):
            compiled(nt.ones(3))
    assert compiled.n_graphs() == 1 and compiled(nt.ones(3)).tolist() == [2, 2, 2]


def test_as_a_decorator(compiled):
    @nt.compiler.set_stance("force_eager")
    def g(x):
        "Doc."
        return compiled(x)

    assert g(nt.ones(2)).tolist() == [2, 2] and compiled.n_graphs() == 0 and g.__doc__ == "Doc."
    compiled(nt.ones(2))
    assert compiled.n_graphs() == 1


def test_inside_a_compiled_function():
    def f(x):
        y = x + 1
        with nt.compiler.set_stance("force_eager"):
            y = y * 2
        return y - 1

    assert nt.compile(f)(nt.ones(2)).tolist() == [3, 3]


def test_wrong_stances():
    with pytest.raises(RuntimeError, match="invalid torch.compile stance 'never'"):
        nt.compiler.set_stance("never")
    with pytest.raises(RuntimeError, match="non-default stance cannot have force_backend set"):
        nt.compiler.set_stance("force_eager", force_backend="eager")
    assert nt._C.set_capture_stance(0) == 0


PROGRAM = """
import narthex as torch, warnings
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    {first}
torch.compile(lambda x: x + 1, dynamic=True)(torch.ones(2))
print(len(told))
"""


def run(logs, first="pass"):
    environment = {**os.environ, "TORCH_LOGS": logs}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM.format(first=first)], env=environment, capture_output=True, text=True
    )


def test_logs_are_asked_for_from_outside():
    got = run("+dynamo")
    assert "Step 1: torchdynamo start tracing" in got.stderr and "[__guards]" in got.stderr
    assert "wrap_to_fake L['x'] (2,) StatefulSymbolicContext(dynamic_sizes=[<DimDynamic.DUCK: 1>])" in got.stderr
    got = run("dynamo,graph_code", first="torch._logging.set_logs()")
    assert "Step 1" in got.stderr and "[__graph_code]" in got.stderr and "[__guards]" not in got.stderr
    assert got.stdout == "1\n"
    assert run("-dynamo").stderr == run("").stderr == ""
    got = run("nonsense")
    assert got.returncode == 1 and "ValueError: Invalid log settings: TORCH_LOGS=nonsense" in got.stderr
