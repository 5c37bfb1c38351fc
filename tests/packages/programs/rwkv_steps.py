"""rwkv: a recurrent language model with random weights, whose class is a ScriptModule, word by word and all at once."""
import contextlib
import io
import os
import tempfile

import rwkv  # noqa: F401  (nothing yet: its modules are)
import torch

os.environ |= {"RWKV_JIT_ON": "1", "RWKV_CUDA_ON": "0", "RWKV_V7_ON": "0"}
torch.manual_seed(0)
words, width, hidden = 16, 64, 128
weights = {"emb.weight": torch.randn(words, width) * 0.1, "head.weight": torch.randn(words, width) * 0.1}
norms = ["blocks.0.ln0", "ln_out"]
for k in range(2):
    norms += [f"blocks.{k}.ln1", f"blocks.{k}.ln2"]
    for name in ("att.time_mix_k", "att.time_mix_v", "att.time_mix_r", "ffn.time_mix_k", "ffn.time_mix_r"):
        weights[f"blocks.{k}.{name}"] = torch.rand(1, 1, width)
    for name in ("time_decay", "time_first"):
        weights[f"blocks.{k}.att.{name}"] = torch.randn(width)
    for name in ("att.key", "att.value", "att.receptance", "att.output", "ffn.receptance"):
        weights[f"blocks.{k}.{name}.weight"] = torch.randn(width, width) * 0.1
    weights[f"blocks.{k}.ffn.key.weight"] = torch.randn(hidden, width) * 0.1
    weights[f"blocks.{k}.ffn.value.weight"] = torch.randn(width, hidden) * 0.1
for name in norms:
    weights |= {f"{name}.weight": torch.ones(width), f"{name}.bias": torch.zeros(width)}
with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
    torch.save(weights, f"{folder}/model.pth")
    from rwkv.model import RWKV  # reads the environment and prints what it found

    model = RWKV(model=f"{folder}/model", strategy="cpu fp32")
scores, state = model.forward([1, 2, 3, 4], None)
print([f"{x:.4f}" for x in scores[:5].tolist()], len(state))
word = 5
for _ in range(8):
    scores, state = model.forward([word], state)
    word = scores.argmax().item()
    print(word, f"{scores.abs().sum().item():.4f}")
print(isinstance(model, torch.jit.ScriptModule), isinstance(model, torch.nn.Module))
