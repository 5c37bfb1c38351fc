"""examples/gpt.py, whole: trained through torch.compile in each mode on each device with eager losses, to the bit."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
import narthex as torch, narthex.compat.torch_npu as torch_npu
sys.modules |= {"torch": torch, "torch.nn": torch.nn, "torch.nn.functional": torch.nn.functional}
sys.path.insert(0, sys.argv[1])
import gpt
device, attention, dropout = sys.argv[2], sys.argv[3], float(sys.argv[4])
sizes = dict(block_size=16, vocab_size=20, layers=2, heads=2, width=32, bias=True)

def train(mode):
    torch.manual_seed(0)
    model = gpt.GPT(gpt.Config(**sizes, dropout=dropout, attention=attention)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step, losses = torch.compile(model, mode=mode, fullgraph=True) if mode else model, []
    for i in range(4):
        rows = [[(7 * i + 3 * row + column * (row + 2)) % 20 for column in range(17)] for row in range(3)]
        tokens = torch.tensor(rows, device=device)
        _, loss = step(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses

eager = train(None)
for mode in ("max-autotune", "reduce-overhead"):
    assert train(mode) == eager, mode
assert torch_npu.fallbacks() == {}, torch_npu.fallbacks()
"""


@pytest.mark.parametrize("dropout", ["0.0", "0.2"])
@pytest.mark.parametrize("attention", ["sdpa", "written"])
@pytest.mark.parametrize("device", ["cpu", "npu:0"])
def test_example_trains_compiled(device, attention, dropout):
    examples = Path(__file__).resolve().parent.parent.parent / "examples"
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(examples), device, attention, dropout],
        capture_output=True, text=True, timeout=120, check=False, env=dict(os.environ),
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-3000:]
