"""`narthex info`."""

import os
import subprocess
import sys

import narthex as nt


def info(**environment):
    run = subprocess.run(
        [sys.executable, "-m", "narthex", "info"], env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert all(line.startswith("    ") for line in lines[1::2])
    return dict(line.split(" = ", 1) for line in lines[::2])


def test_facts():
    facts = info()
    assert facts["version"] == nt.narthex_version and facts["level"] == nt._C.level_name()
    assert "openblas" in facts["blas"] and facts["threads"].startswith(f"{nt.get_num_threads()} (")
    assert facts["memory"].endswith(" MiB resident") and facts["plugins"].startswith("cpu (1)")
    assert facts["threads"].endswith(f"; {nt._C.explain_threads()[1]})")


def test_what_changes_them():
    limits = {"NARTHEX_MEMORY_LIMIT": str(512 << 20), "NARTHEX_THREADS": "1"}
    facts = info(NARTHEX_LEVEL="base", TORCH_LOGS="graph_code", **limits)
    assert facts["level"] == "base" and facts["NARTHEX_LEVEL"] == "'base'" and facts["TORCH_LOGS"] == "'graph_code'"
    assert facts["threads"].startswith("1 (") and facts["threads"].endswith("NARTHEX_THREADS=1)")
    assert facts["allocator"].endswith("may take 512 MiB")
