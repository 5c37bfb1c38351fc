"""One row for each way in which f runs. Each asserts; PyTorch is the oracle of the numbers.

f is a plain function, so that the same one serves Narthex and PyTorch. Values of the operators that PyTorch's libraries
may sum in another order are compared closely, everything that Narthex promises to be the same is compared exactly.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import narthex as nt

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAMS = Path(__file__).resolve().parent / "programs"
CLAUSES = "abcdefghijklmn"


def f(x, w, b):
    return (x @ w.t() * b + b).sum()


@dataclass(frozen=True)
class Row:
    clause: str
    name: str
    function: Callable[[], None]


ROWS: list[Row] = []


def row(clause: str, name: str):
    """Adds the function below it to ROWS."""

    def add(function: Callable[[], None]) -> Callable[[], None]:
        ROWS.append(Row(clause, name, function))
        return function

    return add


# ---- helpers ----------------------------------------------------------------------------------------------------


def flat(value) -> list[float]:
    """The elements of nested lists."""
    return [item for part in value for item in flat(part)] if isinstance(value, list) else [value]


def close(ours, theirs) -> bool:
    a, b = flat(ours.tolist()), flat(theirs.tolist())
    return len(a) == len(b) and all(math.isclose(x, y, rel_tol=1e-5, abs_tol=1e-5) for x, y in zip(a, b))


def same(a, b) -> bool:
    return tuple(a.shape) == tuple(b.shape) and a.tolist() == b.tolist()


def inputs(torch, device: str = "cpu", shapes=((3, 4), (5, 4), (5,)), seed: int = 0) -> list:
    """x, w, b as leaves: drawn on the CPU, so that every device has the same numbers."""
    torch.manual_seed(seed)
    return [torch.randn(*shape).to(device).requires_grad_() for shape in shapes]


def forward_backward(function, values: list) -> list:
    """The value of function and the gradients of all its inputs, which are cleared first."""
    for value in values:
        value.grad = None
    out = function(*values)
    out.backward()
    return [out.detach(), *[value.grad for value in values]]


def check_compiled(mode: str) -> None:
    """f compiled for the CPU equals eager f exactly, at the first call and at later ones with other numbers."""
    compiled = nt.compile(f, mode=mode)
    for seed in (0, 1, 2):
        eager = forward_backward(f, inputs(nt, seed=seed))
        ours = forward_backward(compiled, inputs(nt, seed=seed))
        assert all(same(a, b) for a, b in zip(ours, eager)), f"compiled {ours}\neager {eager}"


def load_npu() -> None:
    import narthex.compat.torch_npu  # noqa: F401  (loads the plugin)


def run_program(text_or_path: str | Path) -> tuple[str, str, str]:
    """stdout, stderr and the path of a program under `narthex run`."""
    with tempfile.TemporaryDirectory() as folder:
        path = text_or_path
        if isinstance(text_or_path, str):
            path = Path(folder) / "program.py"
            path.write_text(text_or_path)
        run = subprocess.run(
            [sys.executable, "-m", "narthex", "run", str(path)], capture_output=True, text=True, timeout=60
        )
        assert run.returncode == 0, f"narthex run {path}: exit {run.returncode}\n{run.stdout}\n{run.stderr[-4000:]}"
        return run.stdout, run.stderr, str(path)


def check_printed(out: str, rows: int) -> None:
    """A matrix on the accelerator was printed; its device may stand on a line of its own."""
    assert out.startswith("tensor([[") and out.endswith("device='npu:0')\n") and out.count("[") == rows + 1, out


def check_program(path: Path, mode: str) -> None:
    from tests.line.logs import Program, check_log

    reference = ROOT.parent / "shared" / "reference" / "programs" / path.name
    if reference.exists():
        assert reference.read_bytes() == path.read_bytes(), f"{path} differs from {reference}"
    out, log, where = run_program(path)
    check_log(Program(where, mode), log)
    check_printed(out, rows=2)


def check_step(mode: str) -> None:
    """Three training steps on npu:0 with a compiled forward (and so backward) equal three eager ones exactly."""
    load_npu()

    def train(function) -> list:
        values = inputs(nt, "npu:0")
        losses = []
        for _ in range(3):
            loss, *_ = forward_backward(function, values)
            losses.append(loss)
            with nt.no_grad():
                for value in values:
                    value.add_(value.grad, alpha=-0.1)
        return losses + [value.detach() for value in values]

    ours, eager = train(nt.compile(f, mode=mode)), train(f)
    assert all(value.device == nt.device("npu:0") for value in ours)
    assert all(same(a.cpu(), b.cpu()) for a, b in zip(ours, eager)), f"{mode} {ours}\neager {eager}"
    host = inputs(nt)
    assert close(ours[0].cpu(), f(*host)), "npu and CPU differ"


# ---- rows ---------------------------------------------------------------------------------------------------------


@row("a", "eager equals PyTorch in value and gradients, same seed")
def eager() -> None:
    import torch

    for shapes in (((3, 4), (5, 4), (5,)), ((2, 2), (2, 2), (2,)), ((33, 17), (65, 17), (65,))):
        theirs, ours = inputs(torch, shapes=shapes), inputs(nt, shapes=shapes)
        assert all(same(a, b) for a, b in zip(ours, theirs)), "the same seed drew other numbers"
        assert all(repr(a) == repr(b) for a, b in zip(ours, theirs)), f"{ours}\n{theirs}"
        for a, b in zip(forward_backward(f, ours), forward_backward(f, theirs)):
            assert tuple(a.shape) == tuple(b.shape) and close(a, b), f"{a}\n{b}"
        assert f(*ours).grad_fn.name() == f(*theirs).grad_fn.name() == "SumBackward0"


@row("b", "compiled forward and backward on the CPU, max-autotune")
def compiled_engine() -> None:
    check_compiled("max-autotune")


@row("c", "compiled forward and backward on the CPU, reduce-overhead")
def compiled_replay() -> None:
    check_compiled("reduce-overhead")


scale = 2.0


@row("d", "a new shape and a changed global are followed")
def guards() -> None:
    global scale

    def scaled(x, w, b):
        return f(x, w, b) * scale

    for mode in ("max-autotune", "reduce-overhead"):
        compiled = nt.compile(scaled, mode=mode)
        for scale in (2.0, 3.0, 2.0):
            for shapes in (((3, 4), (5, 4), (5,)), ((6, 2), (3, 2), (3,)), ((3, 4), (5, 4), (5,))):
                values = inputs(nt, shapes=shapes)
                assert same(compiled(*values).detach(), scaled(*values).detach()), f"{mode}, {shapes}, scale {scale}"


@row("e", "a print splits the frame in two graphs")
def graph_break() -> None:
    graphs = []

    def backend(gm, example_inputs):
        graphs.append(gm)
        return gm.forward

    def talks(x, y):
        z = x + y
        print("between")
        return z * y

    compiled = nt.compile(talks, backend=backend)
    x, y = nt.randn(2, 3), nt.randn(2, 3)
    for _ in range(2):
        with contextlib.redirect_stdout(io.StringIO()) as said:
            out = compiled(x, y)
        assert said.getvalue() == "between\n" and same(out, (x + y) * y)
    assert len(graphs) == 2, f"{len(graphs)} graphs"
    assert "+" in graphs[0].code and "*" in graphs[1].code, "\n".join(gm.code for gm in graphs)


@row("f", "e2e_reduce_overhead.py unmodified on npu:0, its log in order")
def program_replay() -> None:
    check_program(PROGRAMS / "e2e_reduce_overhead.py", "reduce-overhead")


@row("g", "e2e_max_autotune.py unmodified on npu:0, its log in order")
def program_engine() -> None:
    check_program(PROGRAMS / "e2e_max_autotune.py", "max-autotune")


@row("h", "the same with torch.manual_seed(0) in front print PyTorch's numbers")
def program_seeded() -> None:
    import torch

    torch.manual_seed(0)
    x, y = torch.randn(2, 2), torch.randn(2, 2)
    expected = repr(x + y)[:-1] + ", device='npu:0')\n"
    for name in ("e2e_reduce_overhead.py", "e2e_max_autotune.py"):
        out, _, _ = run_program("import torch\ntorch.manual_seed(0)\n" + (PROGRAMS / name).read_text())
        assert out == expected, f"{name}: {out}expected {expected}"


@row("i", "a variant with other names, shape and operator logs accordingly")
def program_variant() -> None:
    from tests.line.logs import Program, check_log

    changes = [
        ("class Model(", "class Scale("),
        ("Model()", "Scale()"),
        ("def forward(self, x, y)", "def forward(self, left, right)"),
        ("torch.add(x, y)", "torch.mul(left, right)"),
        ("x = torch.randn(2, 2)", "x = torch.randn(3, 5)"),
        ("y = torch.randn(2, 2)", "y = torch.randn(3, 5)"),
    ]
    for name, mode in (("e2e_reduce_overhead.py", "reduce-overhead"), ("e2e_max_autotune.py", "max-autotune")):
        text = (PROGRAMS / name).read_text()
        for old, new in changes:
            assert old in text, old
            text = text.replace(old, new)
        out, log, where = run_program(text)
        check_log(Program(where, mode, ("left", "right"), (3, 5), "mul", "Scale"), log)
        check_printed(out, rows=3)
        for old in ("L_x_", "torch.add", "aten.add", "(2, 2)"):
            assert old not in log, f"{old} stands in the log of a program that has no such thing"


@row("j", "f's training step on npu:0, max-autotune, equals eager on npu:0")
def step_engine() -> None:
    check_step("max-autotune")


@row("k", "f's training step on npu:0, reduce-overhead, equals eager on npu:0")
def step_replay() -> None:
    check_step("reduce-overhead")


def build_c_program(folder: str) -> str:
    program = f"{folder}/line"
    flags = [f"-I{nt.include_dir()}", f"-L{nt.lib_dir()}", f"-Wl,-rpath,{nt.lib_dir()}"]
    source = str(ROOT / "examples" / "c" / "line.c")
    compiler = shlex.split(os.environ.get("CC", "gcc"))
    subprocess.run(
        [*compiler, "-std=gnu11", "-O2", source, *flags, "-lnarthex", "-lm", "-o", program],
        check=True,
    )
    libraries = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    assert "libnarthex.so" in libraries and "libpython" not in libraries, libraries
    return program


def run_c_program(*command: str) -> str:
    run = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, f"{' '.join(command)}: exit {run.returncode}\n{run.stdout}{run.stderr}"
    return run.stdout


def printed(text: str, name: str) -> list[float]:
    """The numbers behind `name` on its line of what a program printed."""
    lines = [line for line in text.splitlines() if line.startswith(name + " ")]
    assert len(lines) == 1, f"no line '{name}':\n{text}"
    return [float(word) for word in lines[0][len(name) :].split()]


def ramp_inputs() -> list:
    """The numbers that examples/c/line.c computes with."""

    def ramp(rows: int, columns: int, start: float, step: float) -> list:
        return [[start + step * (row * columns + column) for column in range(columns)] for row in range(rows)]

    values = (ramp(2, 3, 0.5, 0.25), ramp(4, 3, -1.0, 0.125), ramp(1, 4, 1.0, 0.5)[0])
    return [nt.tensor(value, requires_grad=True) for value in values]


@row("l", "a C program builds and runs f, its gradients and its graph, without Python")
def c_program() -> None:
    with tempfile.TemporaryDirectory() as folder:
        out = run_c_program(build_c_program(folder))
    values = ramp_inputs()
    value, *grads = forward_backward(f, values)
    assert printed(out, "eager") == printed(out, "engine") == [value.item()], out
    for name, grad in zip("xwb", grads):
        assert all(
            math.isclose(a, b, rel_tol=1e-6) for a, b in zip(printed(out, f"grad {name}"), flat(grad.tolist()))
        ), out
    with nt.no_grad():
        for parameter in values[1:]:
            parameter.add_(parameter.grad, alpha=-0.01)
    assert math.isclose(printed(out, "after a step")[0], f(*values).item(), rel_tol=1e-5), out


@row("m", "a C program loads f's model file and runs it, without Python")
def c_model_file() -> None:
    with tempfile.TemporaryDirectory() as folder:
        program, model = build_c_program(folder), f"{folder}/model.nxm"
        run_c_program(program, "save", model)
        out = run_c_program(program, "run", model)
        assert printed(out, "loaded") == [f(*ramp_inputs()).item()], out
        broken = Path(model).read_bytes()[:-3]
        Path(model).write_bytes(broken)
        run = subprocess.run([program, "run", model], capture_output=True, text=True)
        assert run.returncode == 1 and run.stderr.startswith("line: "), f"a cut file: {run.returncode} {run.stderr}"


@row("n", "torch.compile(f, backend='narthex') in PyTorch, both passes, no copies")
def bridge() -> None:
    import torch
    from narthex import bridge

    crossed: list[tuple[int, int]] = []  # addresses of a tensor on PyTorch's and on Narthex's side
    into, back = bridge._from_torch, bridge._to_torch

    def record_into(value):
        made = into(value)
        crossed.append((value.data_ptr(), made.data_ptr()))
        return made

    def record_back(value):
        made = back(value)
        crossed.append((made.data_ptr(), value.data_ptr()))
        return made

    before, outside = bridge.compiled_graphs(), len(bridge.report())
    bridge._from_torch, bridge._to_torch = record_into, record_back
    try:
        compiled = torch.compile(f, backend="narthex")
        for seed in (0, 1):
            ours = forward_backward(compiled, inputs(torch, seed=seed))
            theirs = forward_backward(f, inputs(torch, seed=seed))
            assert all(close(a, b) and a.shape == b.shape for a, b in zip(ours, theirs)), f"{ours}\n{theirs}"
    finally:
        bridge._from_torch, bridge._to_torch = into, back
    assert bridge.compiled_graphs() - before == 2, "forward and backward were not both compiled by the engine"
    assert bridge.report()[outside:] == [], bridge.report()[outside:]
    assert len(crossed) > 8 and all(theirs == ours for theirs, ours in crossed), crossed
