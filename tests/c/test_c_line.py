"""The C example, built against the installed package and run with no Python in it."""

import os
import pathlib
import shlex
import shutil
import struct
import subprocess

import pytest

SOURCE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "c" / "line.c"
COMPILER = shlex.split(os.environ.get("CC", "")) or [found for found in map(shutil.which, ("cc", "gcc")) if found][:1]

pytestmark = pytest.mark.skipif(not COMPILER, reason="no C compiler")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    import narthex

    target = tmp_path_factory.mktemp("c") / "line"
    lib = narthex.lib_dir()
    command = [
        *COMPILER,
        "-std=c11",
        "-Wall",
        "-Wextra",
        "-Werror",
        str(SOURCE),
        f"-I{narthex.include_dir()}",
        f"-L{lib}",
        "-lnarthex",
        f"-Wl,-rpath,{lib}",
        "-o",
        str(target),
    ]
    subprocess.run(command, check=True)
    return target


def run(program, *args, status=0):
    done = subprocess.run(
        [str(program), *map(str, args)], capture_output=True, text=True, env={"PATH": os.environ["PATH"]}
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done


def float32(value):
    return struct.unpack("f", struct.pack("f", value))[0]


def expected():
    """f, its gradients and f after one step, in Python's doubles."""
    rows, n_in, n_out = 2, 3, 4
    x = [[0.5 + 0.25 * (i * n_in + k) for k in range(n_in)] for i in range(rows)]
    w = [[-1.0 + 0.125 * (j * n_in + k) for k in range(n_in)] for j in range(n_out)]
    b = [1.0 + 0.5 * j for j in range(n_out)]

    def mm(w, i, j):
        return sum(x[i][k] * w[j][k] for k in range(n_in))

    def f(w, b):
        return sum(mm(w, i, j) * b[j] + b[j] for i in range(rows) for j in range(n_out))

    grad_x = [sum(b[j] * w[j][k] for j in range(n_out)) for i in range(rows) for k in range(n_in)]
    grad_w = [sum(b[j] * x[i][k] for i in range(rows)) for j in range(n_out) for k in range(n_in)]
    grad_b = [sum(mm(w, i, j) + 1 for i in range(rows)) for j in range(n_out)]
    stepped_w = [[w[j][k] - 0.01 * grad_w[j * n_in + k] for k in range(n_in)] for j in range(n_out)]
    stepped_b = [b[j] - 0.01 * grad_b[j] for j in range(n_out)]
    return f(w, b), grad_x, grad_w, grad_b, f(stepped_w, stepped_b)


def values(output, name):
    line = next(line for line in output.splitlines() if line.startswith(name + " "))
    return [float(word) for word in line[len(name) :].split()]


def test_engine_eager_and_gradients(program):
    output = run(program).stdout
    f, grad_x, grad_w, grad_b, stepped = expected()
    assert values(output, "eager") == [float32(f)]
    assert values(output, "engine") == values(output, "eager")
    assert "agree" in output.splitlines()
    assert values(output, "grad x") == pytest.approx(grad_x, rel=1e-6)
    assert values(output, "grad w") == pytest.approx(grad_w, rel=1e-6)
    assert values(output, "grad b") == pytest.approx(grad_b, rel=1e-6)
    assert values(output, "after a step") == pytest.approx([stepped], rel=1e-5)


def test_model_file(program, tmp_path):
    path = tmp_path / "model.nxm"
    run(program, "save", path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.nxm"]
    assert values(run(program, "run", path).stdout, "loaded") == values(run(program).stdout, "engine")


@pytest.mark.parametrize("keep", [0, 1, 20, 200])
def test_truncated_file_is_refused(program, tmp_path, keep):
    path = tmp_path / "model.nxm"
    run(program, "save", path)
    path.write_bytes(path.read_bytes()[:keep])
    assert "line: load:" in run(program, "run", path, status=1).stderr


def test_every_damaged_byte_is_noticed(program, tmp_path):
    path = tmp_path / "model.nxm"
    run(program, "save", path)
    whole = path.read_bytes()
    for at in range(0, len(whole), 37):
        damaged = bytearray(whole)
        damaged[at] ^= 0x5A
        path.write_bytes(damaged)
        assert "line: load:" in run(program, "run", path, status=1).stderr, f"byte {at}"


def test_missing_file(program, tmp_path):
    assert "cannot be opened" in run(program, "run", tmp_path / "none.nxm", status=1).stderr


def test_no_python_is_loaded(program):
    if shutil.which("ldd") is None:
        pytest.skip("no ldd")
    assert "libpython" not in subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True).stdout
