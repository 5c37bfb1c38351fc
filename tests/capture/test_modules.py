"""Modules of public packages (modules.py): one graph each with fullgraph=True, at most one more for another size, with
the module's own numbers; what is not one graph, and what ends it. The run prints how many are."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEEDED = ("transformers", "timm", "torch_geometric", "torchsr", "unet", "dcgan_pytorch", "attn_gan_pytorch")
ENDS = {
    "ReformerModel": "manual_seed",
    "GraphUNet": "make_wrapper_subclass",
}
EXPERTS = ("Mixtral", "Qwen2Moe", "Qwen3Moe", "DeepseekV3", "GptOss")
MOST = dict.fromkeys([f"{name}ForCausalLM" for name in EXPERTS], 3)  # graphs: which words an expert gets decides more


def wrong(row):
    """Why the row of a module is not as expected, or nothing."""
    name, error = row["name"], row.get("error", "")
    if name in ENDS:
        return "" if ENDS[name] in error else f"expected to end at {ENDS[name]}: {error or 'one graph'}"
    if error:
        return error
    if not 1 <= row["graphs"] <= MOST.get(name, 2):
        return f"{row['graphs']} graphs"
    return "" if row["apart"] < 1e-5 else f"apart from the module by {row['apart']}"


def test_one_graph(record_property):
    from tests.capture.modules import FIELDS

    if missing := [name for name in NEEDED if find_spec(name) is None]:
        pytest.skip(f"{', '.join(missing)} not installed: make test installs what requirements/modules.txt says")
    command = [sys.executable, "-m", "narthex", "run", str(Path(__file__).with_name("modules.py"))]
    path = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run(command, capture_output=True, text=True, timeout=1800, cwd=ROOT, env=path)
    assert run.returncode == 0, run.stderr[-3000:]
    rows = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    record_property("modules", [(row["field"], row["name"], row.get("error", "")) for row in rows])
    assert [row["name"] for row in rows] == [name for _, names in FIELDS.values() for name in names]
    assert not [f"{row['name']}: {why}" for row in rows if (why := wrong(row))]
