"""The list of operators that the reference accelerator supplies, as its generator reads it."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def generate(tmp_path, text):
    (tmp_path / "functions.yaml").write_text(text)
    command = [
        sys.executable,
        "plugins/npu/gen_official.py",
        tmp_path / "functions.yaml",
        "ops.txt",
        tmp_path / "out.c",
    ]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def test_sections_that_nothing_is_made_of_are_refused(tmp_path):
    assert generate(tmp_path, "backend: NPU\nofficial:\n  - abs\n").returncode == 0
    assert '"abs",' in (tmp_path / "out.c").read_text()
    run = generate(
        tmp_path, "backend: NPU\nofficial:\n  - abs\ncustom:\n  - func: mine(Tensor a) -> Tensor\nquant: []\n"
    )
    assert run.returncode == 1 and "sections that nothing is made of: custom, quant" in run.stderr
