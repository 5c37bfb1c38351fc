"""The tests of capture under the other versions of CPython that it knows and that are here: with NARTHEX_VERSIONS=1, as
`make check-hostile` sets it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


def interpreter(version):
    built = sorted((Path.home() / ".pyenv/versions").glob(f"{version}.*/bin/python{version}"))
    return str(built[-1]) if built else shutil.which(f"python{version}")


@pytest.mark.skipif(os.environ.get("NARTHEX_VERSIONS") != "1", reason="builds for each version: NARTHEX_VERSIONS=1")
@pytest.mark.parametrize("version", ["3.12", "3.13"])
def test_capture_under(version):
    python = interpreter(version)
    if not python or subprocess.run([python, "--version"], capture_output=True).returncode:
        pytest.skip(f"no CPython {version} here")
    place = ROOT / "build/versions" / version
    venv = place / "venv"
    place.mkdir(parents=True, exist_ok=True)
    env = os.environ | {"PYTHON": python, "VENV": str(venv), "NARTHEX_VERSIONS": "0"}
    env["PATH"] = f"{venv / 'bin'}:{env['PATH']}"
    install = [str(venv / "bin/python"), "-m", "pip", "install", "--quiet", "--no-build-isolation", "--no-deps"]
    steps = (
        ["tools/setup.sh", "versions"],
        [*install, f"-Cbuild-dir={place / 'build'}", "."],
        [str(venv / "bin/python"), "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", "tests/capture"],
    )
    for step in steps:
        done = subprocess.run(step, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert done.returncode == 0, f"{sys.version_info} runs {' '.join(step)}:\n{done.stdout[-4000:]}"
