"""The tests of capture under the other versions of CPython that py/cpython knows and that are here, where
NARTHEX_VERSIONS is 1, as `make test` sets it. Only the extension depends on the version: it alone is built, beside the
library that is there. The run prints which versions were met, and their counts."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import narthex
import pytest

ROOT = Path(__file__).resolve().parents[2]
KNOWN = re.findall(r"'(3\.\d+)': \[", (ROOT / "py/cpython/meson.build").read_text())
OTHERS = [version for version in KNOWN if version != "{}.{}".format(*sys.version_info)]
CAN_BUILD = "import pathlib, sysconfig, venv; pathlib.Path(sysconfig.get_path('include'), 'Python.h').stat()"


def interpreter(version):
    """One that has what a build needs: pyenv's newest of this version, or the one on the path."""
    built = (Path.home() / ".pyenv/versions").glob(f"{version}.*/bin/python{version}")
    newest_first = sorted(built, key=lambda path: int(re.findall(r"\d+", path.parts[-3])[2]), reverse=True)
    for python in [*map(str, newest_first), shutil.which(f"python{version}")]:
        if python and not subprocess.run([python, "-c", CAN_BUILD], capture_output=True).returncode:
            return python
    return None


def run(*command, **environment):
    command, env = list(map(str, command)), os.environ | environment
    done = subprocess.run(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout[-4000:]}"
    return done.stdout


def build(python, place, *more):
    """An environment for this interpreter in which Narthex is: its own extension, this interpreter's library."""
    venv, built = place / "venv", place / "build"
    mine, own = place / "venv/bin/python", place / "native.ini"
    if not mine.exists():
        run(python, "-m", "venv", "--without-pip", venv)
    wanted, there = ROOT / "requirements/versions.txt", place / "versions.txt"
    if not there.exists() or there.read_text() != wanted.read_text():
        run(sys.executable, "-m", "pip", "--python", mine, "install", "--quiet", "--no-compile", "-r", wanted)
        shutil.copy(wanted, there)
    (packages,) = venv.glob("lib/python*/site-packages")
    if not (built / "build.ninja").exists():
        own.write_text(f"[binaries]\npython = '{mine}'\n")
        folders = [f"-Dpython.{kind}libdir={packages}" for kind in ("pure", "plat")]
        options = [f"-Dlibrary={ROOT / 'build/release'}", "-Doptimization=1", "-Dpython.bytecompile=-1", *folders]
        run("meson", "setup", built, "--native-file", own, *options, *more)
    run("meson", "install", "-C", built, "--quiet")
    library = packages / "narthex/lib"
    if not library.exists():
        library.symlink_to(Path(narthex.__file__).parent / "lib")
    return mine


builds = pytest.mark.skipif(
    os.environ.get("NARTHEX_VERSIONS") != "1", reason="builds for each version: NARTHEX_VERSIONS=1"
)


@builds
def test_without_capture():
    """A build for a CPython that is not known, one without a global interpreter lock among them: one line tells."""
    from scipy_openblas32 import get_lib_dir

    mine = build(sys.executable, ROOT / "build/versions/none", "-Dcapture=false")
    program = (
        "import narthex as torch\n"
        "x = torch.ones(3, requires_grad=True)\n"
        "model = torch.compile(torch.nn.Linear(3, 2))\n"
        "torch.compile(lambda x: (model(x) * 0 + 2).sum())(x).backward()\n"
        "print(x.grad.tolist(), model(x).shape)"
    )
    told = run(mine, "-c", program, NARTHEX_BLAS=str(Path(get_lib_dir(), "libscipy_openblas.so")))
    assert told.count("captures no functions") == 1 and "[0.0, 0.0, 0.0] torch.Size([2])" in told


@builds
@pytest.mark.parametrize("version", OTHERS)
def test_capture_under(version, record_property):
    from scipy_openblas32 import get_lib_dir

    python = interpreter(version)
    if python is None:
        record_property("versions", f"{version} is not here")
        pytest.skip(f"no CPython {version} with its headers here")
    mine = build(python, ROOT / "build/versions" / version)
    whole = run(mine, "-c", "import platform; print(platform.python_version())").strip()
    record_property("versions", f"{whole} capture failed")
    told = run(
        mine, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "tests/capture",
        NARTHEX_VERSIONS="0", NARTHEX_BLAS=str(Path(get_lib_dir(), "libscipy_openblas.so")),
    )  # fmt: skip
    record_property("versions", f"{whole} capture: {told.splitlines()[-1].partition(' in ')[0].strip('= ')}")
