"""What an installed wheel is to do on a machine with nothing but Python: no numpy, no compiler, no PyTorch."""

import importlib.metadata
import importlib.util
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

start = time.perf_counter()
import narthex as torch  # noqa: E402

assert "site-packages" in torch.__file__, torch.__file__
assert not any(importlib.util.find_spec(name) for name in ("numpy", "torch")) and shutil.which("gcc") is None


def train(mode: str | None) -> float:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16), torch.nn.Linear(16, 1))
    step = model if mode is None else torch.compile(model, mode=mode, fullgraph=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    x = torch.randn(64, 8)
    y = (x[:, :1] * x[:, 1:2]).detach()
    for _ in range(60):
        loss = torch.nn.functional.mse_loss(step(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


eager = train(None)
for mode in ("max-autotune", "reduce-overhead"):
    assert abs(train(mode) - eager) < 1e-4 * eager, mode
assert eager < 0.5, eager
a = torch.randn(40, 40, dtype=torch.float64)
spread = a @ a.mT + torch.eye(40, dtype=torch.float64)
assert (torch.linalg.cholesky(spread) @ torch.linalg.cholesky(spread).mT - spread).abs().max() < 1e-9

with tempfile.TemporaryDirectory() as folder:
    program = Path(folder, "program.py")
    program.write_text("import torch\nprint(torch.__file__, torch.arange(3).sum().item())\n")
    narthex = Path(sys.executable).with_name("narthex")
    run = subprocess.run([narthex, "run", str(program)], capture_output=True, text=True, check=True)
    assert run.stdout.split()[-1] == "3", run.stdout
    exported = torch.export.export(torch.nn.Linear(8, 2), (torch.ones(4, 8),))
    torch.export.save(exported, f"{folder}/linear.pt2")
    again = torch.export.load(f"{folder}/linear.pt2").module()
    assert torch.equal(again(torch.ones(4, 8)), exported.module()(torch.ones(4, 8)))
    torch.model_file.save(exported, f"{folder}/linear.nxm")
    torch.save({"x": a}, f"{folder}/a.pt")
    assert torch.equal(torch.load(f"{folder}/a.pt")["x"], a)

names = [f.name for f in importlib.metadata.files("narthex") or []]
assert any(name.startswith("libprotobuf") and name.endswith(".txt") for name in names), "a license text is missing"
print(f"narthex {importlib.metadata.version('narthex')} works in {time.perf_counter() - start:.2f} s")
