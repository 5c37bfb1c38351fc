"""A training script with what such scripts usually touch, each part saying what it saw; the same text from both.

Run by PyTorch and by Narthex (test_programs.py): every line must be equal, numbers rounded to what both promise.
"""

import inspect
import math
import os
import pickle
import sys
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
from torch.nn import functional as F

folder = sys.argv[1]
compiled = "--compile" in sys.argv

# ---- settings that scripts make and questions that they ask
print("cuda:", torch.cuda.is_available(), torch.cuda.device_count(), torch.cuda.is_bf16_supported())
print("mps:", torch.backends.mps.is_available(), "cudnn:", torch.backends.cudnn.is_available())
torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.allow_tf32 = True
torch.backends.cudnn.benchmark = False
torch.backends.cudnn.deterministic = True
torch.set_float32_matmul_precision("high")
print("precision:", torch.get_float32_matmul_precision(), torch.backends.cuda.matmul.allow_tf32)
torch.set_float32_matmul_precision("highest")
print("flash:", hasattr(torch.nn.functional, "scaled_dot_product_attention"), torch.backends.cuda.flash_sdp_enabled())
print("ddp:", int(os.environ.get("RANK", -1)) != -1, torch.distributed.is_initialized())
print("version:", torch.__version__.split("+")[0], tuple(map(int, torch.__version__.split("+")[0].split(".")[:2])))
device = "cuda" if torch.cuda.is_available() else "cpu"
device_type = "cuda" if "cuda" in device else "cpu"
dtype = "bfloat16" if torch.cuda.is_available() and torch.cuda.is_bf16_supported() else "float32"
ptdtype = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}[dtype]
ctx = nullcontext() if device_type == "cpu" else torch.amp.autocast(device_type=device_type, dtype=ptdtype)
scaler = torch.amp.GradScaler("cuda", enabled=(dtype == "float16"))
print("scaler:", scaler.is_enabled(), scaler.get_scale(), scaler.state_dict())
torch.manual_seed(1337)
torch.cuda.manual_seed(1337)
torch.cuda.manual_seed_all(1337)
print("seed:", torch.initial_seed(), torch.get_rng_state().shape, torch.get_rng_state().dtype)
print("default dtype:", torch.get_default_dtype())
torch.set_default_dtype(torch.float64)
print(torch.tensor([1.0, 2.5]), torch.tensor(1.0).dtype)
torch.set_default_dtype(torch.float32)
print("grad mode:", torch.is_grad_enabled())


# ---- the model
@dataclass
class GPTConfig:
    block_size: int = 16
    vocab_size: int = 40
    n_layer: int = 2
    n_head: int = 2
    n_embd: int = 16
    dropout: float = 0.0
    bias: bool = False


class LayerNorm(nn.Module):
    def __init__(self, ndim, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(ndim))
        self.bias = nn.Parameter(torch.zeros(ndim)) if bias else None

    def forward(self, input):
        return F.layer_norm(input, self.weight.shape, self.weight, self.bias, 1e-5)


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        self.resid_dropout = nn.Dropout(config.dropout)
        self.n_head, self.n_embd = config.n_head, config.n_embd
        mask = torch.tril(torch.ones(config.block_size, config.block_size))
        self.register_buffer("mask", mask.view(1, 1, config.block_size, config.block_size))

    def forward(self, x):
        b, t, c = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        k = k.view(b, t, self.n_head, c // self.n_head).transpose(1, 2)
        q = q.view(b, t, self.n_head, c // self.n_head).transpose(1, 2)
        v = v.view(b, t, self.n_head, c // self.n_head).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf"))
        y = F.softmax(att, dim=-1) @ v
        return self.resid_dropout(self.c_proj(y.transpose(1, 2).contiguous().view(b, t, c)))


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.ln_1 = LayerNorm(config.n_embd, bias=config.bias)
        self.attn = Attention(config)
        self.ln_2 = LayerNorm(config.n_embd, bias=config.bias)
        self.mlp = nn.Sequential(
            nn.Linear(config.n_embd, 4 * config.n_embd, bias=config.bias),
            nn.GELU(),
            nn.Linear(4 * config.n_embd, config.n_embd, bias=config.bias),
        )

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.transformer = nn.ModuleDict(
            dict(
                wte=nn.Embedding(config.vocab_size, config.n_embd),
                wpe=nn.Embedding(config.block_size, config.n_embd),
                drop=nn.Dropout(config.dropout),
                h=nn.ModuleList([Block(config) for _ in range(config.n_layer)]),
                ln_f=LayerNorm(config.n_embd, bias=config.bias),
            )
        )
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.transformer.wte.weight = self.lm_head.weight
        self.apply(self._init_weights)
        for pn, p in self.named_parameters():
            if pn.endswith("c_proj.weight"):
                torch.nn.init.normal_(p, mean=0.0, std=0.02 / math.sqrt(2 * config.n_layer))

    def _init_weights(self, module):
        if isinstance(module, nn.Linear):
            torch.nn.init.normal_(module.weight, mean=0.0, std=0.02)
            if module.bias is not None:
                torch.nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            torch.nn.init.normal_(module.weight, mean=0.0, std=0.02)

    def get_num_params(self, non_embedding=True):
        n_params = sum(p.numel() for p in self.parameters())
        return n_params - self.transformer.wpe.weight.numel() if non_embedding else n_params

    def forward(self, idx, targets=None):
        pos = torch.arange(0, idx.size(1), dtype=torch.long, device=idx.device)
        x = self.transformer.drop(self.transformer.wte(idx) + self.transformer.wpe(pos))
        for block in self.transformer.h:
            x = block(x)
        logits = self.lm_head(self.transformer.ln_f(x))
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)

    def configure_optimizers(self, weight_decay, learning_rate, betas, device_type):
        param_dict = {pn: p for pn, p in self.named_parameters() if p.requires_grad}
        decay = [p for n, p in param_dict.items() if p.dim() >= 2]
        nodecay = [p for n, p in param_dict.items() if p.dim() < 2]
        print(f"decayed: {len(decay)} with {sum(p.numel() for p in decay):,}; {len(nodecay)} not")
        fused_available = "fused" in inspect.signature(torch.optim.AdamW).parameters
        extra = dict(fused=True) if fused_available and device_type == "cuda" else dict()
        print("fused:", fused_available, extra)
        groups = [{"params": decay, "weight_decay": weight_decay}, {"params": nodecay, "weight_decay": 0.0}]
        return torch.optim.AdamW(groups, lr=learning_rate, betas=betas, **extra)


# ---- data
np.random.RandomState(3).randint(0, 40, 4000).astype(np.uint16).tofile(os.path.join(folder, "train.bin"))


def get_batch():
    data = np.memmap(os.path.join(folder, "train.bin"), dtype=np.uint16, mode="r")
    ix = torch.randint(len(data) - config.block_size, (4,))
    x = torch.stack([torch.from_numpy((data[i : i + config.block_size]).astype(np.int64)) for i in ix])
    y = torch.stack([torch.from_numpy((data[i + 1 : i + 1 + config.block_size]).astype(np.int64)) for i in ix])
    return x.to(device, non_blocking=True), y.to(device, non_blocking=True)


def get_lr(it):
    if it < 3:
        return 1e-2 * (it + 1) / 4
    ratio = (it - 3) / 9
    return 1e-3 + 0.5 * (1.0 + math.cos(math.pi * ratio)) * 9e-3


config = GPTConfig()
model = GPT(config)
model.to(device)
print(model)
print(f"number of parameters: {model.get_num_params() / 1e3:.2f}K, {model.get_num_params(False)}")
print([(n, tuple(p.shape), p.dtype) for n, p in model.named_parameters()][:4])
print(sum(1 for _ in model.modules()), [n for n, _ in model.named_buffers()], list(model.state_dict())[:3])
optimizer = model.configure_optimizers(1e-1, 1e-3, (0.9, 0.95), device_type)
print(optimizer)
unoptimized_model = model
if compiled:
    model = torch.compile(model, backend=os.environ.get("BACKEND", "inductor"))
    print(list(model.state_dict())[0], type(model).__name__, model.config is config)
raw_model = model

# ---- training
x, y = get_batch()
print(x[0], x.shape, x.dtype, x.device, x.is_contiguous(), x.requires_grad)
iter_num, best_val_loss = 0, 1e9
while True:
    lr = get_lr(iter_num)
    for param_group in optimizer.param_groups:
        param_group["lr"] = lr
    if iter_num % 5 == 0:
        model.eval()
        with torch.no_grad():
            losses = torch.zeros(3)
            for k in range(3):
                with ctx:
                    _, loss = model(*get_batch())
                losses[k] = loss.item()
            best_val_loss = min(best_val_loss, losses.mean().item())
        print(f"step {iter_num}: val loss {losses.mean():.4f}")
        model.train()
    for _ in range(2):
        with ctx:
            logits, loss = model(x, y)
            loss = loss / 2
        x, y = get_batch()
        scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    print(f"iter {iter_num}: loss {loss.item() * 2:.4f}, norm {norm:.3f}, lr {lr:.6f}")
    iter_num += 1
    if iter_num > 10:
        break

# ---- checkpoint
checkpoint = {
    "model": raw_model.state_dict(),
    "optimizer": optimizer.state_dict(),
    "model_args": vars(config),
    "iter_num": iter_num,
    "best_val_loss": best_val_loss,
}
path = os.path.join(folder, "ckpt.pt")
torch.save(checkpoint, path)
loaded = torch.load(path, map_location=device, weights_only=True)
print(sorted(loaded), loaded["model_args"], loaded["iter_num"])
state_dict = loaded["model"]
for k in list(state_dict):
    if k.startswith("_orig_mod."):
        state_dict[k[len("_orig_mod.") :]] = state_dict.pop(k)
fresh = GPT(GPTConfig(**loaded["model_args"]))
print(fresh.load_state_dict(state_dict))
again = fresh.configure_optimizers(1e-1, 1e-3, (0.9, 0.95), device_type)
again.load_state_dict(loaded["optimizer"])
print({k: v for k, v in again.state_dict()["param_groups"][0].items() if k in ("betas", "eps", "weight_decay")})
with torch.no_grad():
    a, b = fresh.eval()(x)[0], unoptimized_model.eval()(x)[0]
print("same:", (a != b).sum().item() == 0, (a - b).abs().mean().item())
try:
    fresh.load_state_dict({"lm_head.weight": torch.zeros(2, 3)}, strict=False)
except RuntimeError as error:
    print(str(error).splitlines()[0], "|", str(error).splitlines()[1].strip())
print(pickle.loads(pickle.dumps(torch.arange(3))))

# ---- how things print
print(torch.arange(6).view(2, 3), torch.tensor(3.14159), torch.tensor([True, False]))
print(torch.tensor([1e-8, 1.0, 1e8]), torch.tensor([0.1, 100.25]), torch.tensor([float("nan"), float("inf"), -1.5]))
for kind in (
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float64,
):
    print(torch.tensor([1, 2, 100]).to(kind), torch.zeros(0, dtype=kind), kind)
print(torch.zeros(2, 3, requires_grad=True), nn.Parameter(torch.ones(2)), (torch.ones(2, requires_grad=True) * 2))
print(torch.arange(2000.0), torch.zeros(30, 40).shape)
torch.set_printoptions(precision=2, linewidth=40, sci_mode=False)
print(torch.arange(9) / 8.0)
torch.set_printoptions(profile="default")
print(f"{torch.tensor(2.5)} {torch.tensor(2.5):.3f} {torch.tensor(7):d} {torch.tensor([1.5])!r}")
print(f"{torch.tensor(3).item():>4} {torch.tensor([2]).item():.1f} {torch.tensor([[True]]).item()}")
print(repr(torch.float32), str(torch.device("cpu")), torch.device("cpu"), torch.Size([2, 3]), torch.tensor(1).type())
print(str(optimizer.param_groups[0]["lr"])[:8], len(optimizer.state), type(optimizer).__name__)
for wrong, phrase in (
    (lambda: torch.ones(2, 3) @ torch.ones(2, 3), "mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)"),
    (lambda: torch.ones(2) + torch.ones(3), "The size of tensor a (2) must match the size of tensor b (3)"),
    (lambda: torch.ones(2).backward(), "element 0 of tensors does not require grad and does not have a grad_fn"),
    (lambda: bool(torch.ones(2)), "Boolean value of Tensor with more than one value is ambiguous"),
    (lambda: torch.ones(2).view(3), "shape '[3]' is invalid for input of size 2"),
    (lambda: nn.Linear(2, 3)(torch.ones(4)), "mat1 and mat2 shapes cannot be multiplied (1x4 and 2x3)"),
    (lambda: torch.ones(2)[5], "index 5 is out of bounds for dimension 0 with size 2"),
    (lambda: torch.no_such_function, "module 'torch' has no attribute 'no_such_function'"),
    (lambda: torch.tensor(1.0).no_such_method, "'Tensor' object has no attribute 'no_such_method'"),
    (lambda: torch.load(os.path.join(folder, "none.pt")), "No such file or directory"),
    (lambda: F.cross_entropy(torch.ones(2, 3), torch.tensor([0, 5])), "Target 5 is out of bounds"),
    (lambda: nn.Embedding(2, 3)(torch.tensor([2])), "index out of range in self"),
):
    try:
        wrong()
    except Exception as error:
        print(type(error).__name__, phrase if phrase in str(error) else str(error).splitlines()[0])
