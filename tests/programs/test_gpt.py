"""examples/gpt.py in every way that it runs, its losses beside PyTorch's from the same seed."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
GPT = ROOT / "examples/gpt.py"
SMALL = ("--layers", "2", "--width", "64", "--heads", "2", "--block-size", "32", "--data-limit", "100000")
QUIET = ("--eval-batches", "2", "--sample", "0", "--warmup", "10")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("gpt")


def command(runner: str, folder: Path, name: str, *options: str) -> list[str]:
    python = [sys.executable] if runner == "torch" else [sys.executable, "-m", "narthex", "run"]
    return [*python, str(GPT), "--out", str(folder / name), "--data", str(folder / "data"), *SMALL, *QUIET, *options]


def run(runner: str, folder: Path, name: str, *options: str) -> tuple[dict, str]:
    """The history of a run and what it printed."""
    done = subprocess.run(
        command(runner, folder, name, *options),
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads((folder / name / "history.json").read_text()), done.stdout


@functools.cache
def losses(runner: str, folder: Path, *options: str) -> list[float]:
    name = runner + "".join(options).replace("-", "_").replace(":", "")
    return run(runner, folder, name, "--steps", "100", "--eval-every", "1000", *options)[0]["loss"]


def assert_close(got: list[float], expected: list[float], tolerance: float) -> None:
    apart = [abs(a - b) / abs(b) for a, b in zip(got, expected)]
    assert len(got) == len(expected) == 100 and max(apart) < tolerance, f"step {apart.index(max(apart))}: {max(apart)}"


VARIANTS = [
    (),
    ("--dropout", "0.1"),
    ("--attention", "written", "--bias"),
    ("--attention", "written", "--dropout", "0.1", "--accumulate", "2"),
]


@pytest.mark.parametrize("options", VARIANTS, ids=" ".join)
def test_eager_losses_are_pytorchs(folder, options):
    assert_close(losses("narthex", folder, *options), losses("torch", folder, *options), 1e-4)


@pytest.mark.parametrize("mode", ["default", "max-autotune", "reduce-overhead"])
@pytest.mark.parametrize("options", VARIANTS[:3], ids=" ".join)
def test_compiled_losses_are_eagers(folder, options, mode):
    assert_close(
        losses("narthex", folder, *options, "--compile", "--mode", mode), losses("narthex", folder, *options), 1e-4
    )


@pytest.mark.parametrize("way", [(), ("--compile",), ("--compile", "--mode", "reduce-overhead")], ids=" ".join)
def test_npu_losses_are_the_cpus(folder, way):
    assert_close(losses("narthex", folder, "--device", "npu:0", *way), losses("torch", folder), 1e-4)


def test_autocast_losses_are_near_pytorchs(folder):
    assert_close(losses("narthex", folder, "--autocast"), losses("torch", folder, "--autocast"), 2e-2)


def test_autocast_compiled(folder):
    assert_close(losses("narthex", folder, "--autocast", "--compile"), losses("torch", folder, "--autocast"), 2e-2)


@pytest.mark.parametrize("options", [("--temperature", "0"), ("--temperature", "0.8", "--top-k", "5")], ids=" ".join)
def test_generated_text_is_pytorchs(folder, options):
    few = ("--steps", "20", "--eval-every", "20", "--sample", "60", *options)
    theirs = run("torch", folder, "torch_text", *few)[1].splitlines()[1:]
    assert run("narthex", folder, "text", *few)[1].splitlines()[1:] == theirs
    assert run("narthex", folder, "text_compiled", "--compile", *few)[1].splitlines()[1:] == theirs


def test_a_killed_run_resumes_with_the_same_losses(folder):
    options = ("--steps", "60", "--eval-every", "10", "--dropout", "0.1")
    whole, _ = run("narthex", folder, "whole", *options)
    started = subprocess.Popen(
        command("narthex", folder, "killed", *options), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    checkpoint = folder / "killed/checkpoint.pt"
    for _ in range(1200):
        if checkpoint.exists() or started.poll() is not None:
            break
        time.sleep(0.02)
    time.sleep(0.2)
    started.send_signal(signal.SIGKILL)
    started.wait()
    assert checkpoint.exists()
    resumed, _ = run("narthex", folder, "killed", *options, "--resume")
    assert resumed["loss"] == whole["loss"] and resumed["evaluated"] == whole["evaluated"]


def test_checkpoints_are_pytorchs(folder):
    options = ("--steps", "20", "--eval-every", "10")
    run("torch", folder, "from_torch", *options)
    more = ("--steps", "30", "--eval-every", "10", "--decay-steps", "20", "--resume")
    ours, _ = run("narthex", folder, "from_torch", *more)
    run("narthex", folder, "from_narthex", *options)
    theirs, _ = run("torch", folder, "from_narthex", *more)
    assert max(abs(a - b) for a, b in zip(ours["loss"], theirs["loss"])) < 1e-4


@pytest.mark.parametrize("temperature, top_k", [("0", "20"), ("0.8", "20"), ("1.2", "5")])
def test_from_c_the_same_tokens(folder, temperature, top_k):
    from narthex import include_dir, lib_dir

    model, program = folder / "gpt.nxm", folder / "generate"
    options = ["--steps", "60", "--eval-every", "60", "--sample", "80", "--prompt", "def f("]
    options += ["--temperature", temperature, "--top-k", top_k]
    _, printed = run("narthex", folder, "exported", *options, "--export", str(model))
    linked = [f"-I{include_dir()}", f"-L{lib_dir()}", f"-Wl,-rpath,{lib_dir()}", "-lnarthex"]
    subprocess.run(
        ["cc", "-Wall", "-Wextra", "-Werror", str(ROOT / "examples/c/generate.c"), *linked, "-o", program], check=True
    )
    drawn = [program, model, "32", "def f(", "80", temperature, top_k]
    done = subprocess.run(drawn, capture_output=True, text=True, check=True)
    assert done.stdout == printed[printed.index("def f(") :]


def in_process(code: str) -> None:
    """Runs code with gpt (the program), torch, a small model and a batch at hand."""
    given = f"""
import sys
sys.path.insert(0, {str(GPT.parent)!r})
import torch
import gpt
config = gpt.Config(layers=2, width=32, heads=2, block_size=16)
torch.manual_seed(0)
model = gpt.GPT(config)
x, y = torch.randint(0, 96, (4, 16)), torch.randint(0, 96, (4, 16))
def step(model, x=x, y=y):
    model.zero_grad()
    loss = model(x, y)[1]
    loss.backward()
    return loss.item()
"""
    runner = [sys.executable, "-m", "narthex", "run", "/dev/stdin"]
    done = subprocess.run(runner, input=given + code, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("attention", ["sdpa", "written"])
def test_the_model_is_one_graph(attention):
    in_process(f"""
model.config.attention = {attention!r}
compiled = torch.compile(model, fullgraph=True)
assert abs(step(compiled) - step(model)) < 1e-5
assert compiled.forward.entries == 1 and len(compiled.forward.graphs) == 1
""")


def test_other_sizes_compile_once_more():
    in_process("""
compiled = torch.compile(model)
for rows in (4, 4, 3, 2, 1, 4):
    assert abs(step(compiled, x[:rows], y[:rows]) - step(model, x[:rows], y[:rows])) < 1e-5
assert compiled.forward.entries == 2, compiled.forward.recompiles
compiled.eval(), model.eval()
for length in range(3, 17):
    with torch.no_grad():
        assert (compiled(x[:1, :length])[0] - model(x[:1, :length])[0]).abs().sum().item() < 1e-4
assert compiled.forward.entries <= 4, compiled.forward.recompiles
""")


def test_no_call_is_stale():
    in_process("""
compiled = torch.compile(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for change in range(6):
    assert abs(step(compiled) - step(model)) < 1e-5, change
    if change == 0:
        optimizer.step()
    elif change == 1:
        model.transformer.norm.weight.data = model.transformer.norm.weight.data * 3
    elif change == 2:
        model.config.attention = "written"
    elif change == 3:
        model.head.weight = torch.nn.Parameter(model.head.weight.detach() * 0.5)
    elif change == 4:
        model.eval()
for module in model.modules():
    if isinstance(module, torch.nn.Dropout):
        module.p = 0.5
model.train()
torch.manual_seed(1)
once = step(compiled)
torch.manual_seed(1)
assert step(model) == once != step(model)
for group in optimizer.param_groups:
    group["lr"] = 0.0
before = model.head.weight.detach().clone()
optimizer.step()
assert (model.head.weight - before).abs().sum().item() == 0
""")


def test_npu_needs_no_fallback():
    in_process("""
import torch_npu
model = model.to("npu:0")
x, y = x.to("npu:0"), y.to("npu:0")
optimizer = model.configure_optimizer(0.1, 1e-3, (0.9, 0.99), "npu")
for run in (model, torch.compile(model), torch.compile(model, mode="reduce-overhead")):
    step(run, x, y)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    gpt.generate(run, x[:1, :4], 4, 16, 0.8, 5)
assert torch_npu.fallbacks() == {}, torch_npu.fallbacks()
""")


def test_help_and_wrong_options(folder):
    text = subprocess.run([sys.executable, "-m", "narthex", "run", str(GPT), "--help"], capture_output=True, text=True)
    assert text.returncode == 0 and "--temperature" in text.stdout
    wrong = subprocess.run(command("narthex", folder, "none", "--heads", "3"), capture_output=True, text=True)
    assert wrong.returncode == 1 and "is not a multiple of 3 heads" in wrong.stderr
