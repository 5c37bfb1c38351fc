"""transformers as it is on PyPI: PyTorch's numbers and text from the same seed. `make test-packages` installs it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packages.models import MODELS, MORE

PROGRAM, GRAPHS = (Path(__file__).with_name(name) for name in ("models.py", "graphs.py"))
ROOT = Path(__file__).parents[2]
# What is not one graph, and what ends it.
ENDS = {
    "LongformerModel": "the graph writes what existed before",
    "VitsModel": "RandomState.uniform",
    "ReformerModel": "manual_seed",
    "RTDetrForObjectDetection": "a store into an object that existed before",
    "EncodecModel": "a value whose origin capture does not know",
    "MusicgenForCausalLM": "Random.random",
    "LEDForConditionalGeneration": "the graph writes what existed before",
    "GptOssForCausalLM": "the graph writes what existed before",
}
MOST = {"MixtralForCausalLM": 3, "Qwen2MoeForCausalLM": 3}  # graphs: which words an expert gets decides more
pytest.importorskip("transformers", reason="transformers is not installed: make test-packages installs it")


@pytest.fixture(scope="module")
def results():
    """{side: {model: what the program printed}}"""
    found = {}
    for side, command in (("PyTorch", []), ("Narthex", ["-m", "narthex", "run"])):
        run = subprocess.run([sys.executable, *command, str(PROGRAM)], capture_output=True, text=True, timeout=900)
        assert run.returncode == 0, run.stderr[-3000:]
        found[side] = {}
        for line in run.stdout.splitlines():
            if line.startswith("{"):
                found[side].update(json.loads(line))
    return found


@pytest.mark.parametrize("name", [*MODELS, *MORE])
def test_numbers_and_text(results, name):
    mine, theirs = results["Narthex"][name], results["PyTorch"][name]
    assert (mine["shape"], mine["text"]) == (theirs["shape"], theirs["text"])
    assert mine["sum"] == pytest.approx(theirs["sum"], rel=1e-5)
    assert mine["grads"] == pytest.approx(theirs["grads"], rel=1e-4)


@pytest.fixture(scope="module")
def graphs():
    """{model: what the program printed}"""
    command = [sys.executable, "-m", "narthex", "run", str(GRAPHS)]
    path = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run(command, capture_output=True, text=True, timeout=1800, cwd=ROOT, env=path)
    assert run.returncode == 0, run.stderr[-3000:]
    found = {}
    for line in run.stdout.splitlines():
        if line.startswith("{"):
            found.update(json.loads(line))
    return found


@pytest.mark.parametrize("name", [*MODELS, *MORE])
def test_one_graph(graphs, name):
    """fullgraph=True: one graph, at most one more for a batch of another size, with the model's own numbers."""
    found = graphs[name]
    if name in ENDS:
        assert ENDS[name] in found["error"]
    else:
        assert "error" not in found, found["error"]
        assert found["graphs"] <= MOST.get(name, 2) and found["apart"] < 1e-5
