"""The wheel as `make wheel` makes it, installed where no numpy, PyTorch or compiler is in reach."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_wheel_works_in_an_empty_environment(tmp_path):
    run = subprocess.run(["bash", ROOT / "tools/wheel.sh", tmp_path], capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stdout + run.stderr
    (wheel,) = tmp_path.glob("narthex-*.whl")
    version = f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert re.fullmatch(rf"narthex-[\d.]+-{version}-{version}-manylinux_2_\d+_\w+\.whl", wheel.name), wheel.name
    assert re.search(r"narthex [\d.]+ works in", run.stdout), run.stdout
    assert wheel.stat().st_size < 20 << 20
