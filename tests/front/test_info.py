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
    assert "openblas" in facts["blas"] and facts["memory"].endswith(" MiB resident")
    assert facts["plugins"].startswith("cpu (1)")
    # Of a fresh process, as the command is: here another test may have set the number of threads.
    asked = "import narthex as nt; print(nt.get_num_threads(), nt._C.explain_threads()[1])"
    run = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    threads, reason = run.stdout.strip().split(" ", 1)
    assert facts["threads"].startswith(f"{threads} (") and facts["threads"].endswith(f"; {reason})")


def test_what_changes_them():
    limits = {"NARTHEX_MEMORY_LIMIT": str(512 << 20), "NARTHEX_THREADS": "1"}
    facts = info(NARTHEX_LEVEL="base", TORCH_LOGS="graph_code", **limits)
    assert facts["level"] == "base" and facts["NARTHEX_LEVEL"] == "'base'" and facts["TORCH_LOGS"] == "'graph_code'"
    assert facts["threads"].startswith("1 (") and facts["threads"].endswith("NARTHEX_THREADS=1)")
    assert facts["allocator"].endswith("may take 512 MiB")
