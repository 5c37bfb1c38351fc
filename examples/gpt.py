"""A small GPT, trained character by character on the source of Python's standard library.

    python examples/gpt.py                                    train eagerly, then continue a prompt
    python examples/gpt.py --compile --mode max-autotune      the same through torch.compile
    python examples/gpt.py --resume                           go on from the last checkpoint
    python examples/gpt.py --steps 0 --resume --prompt "def " only continue a prompt

Ordinary PyTorch: it runs under `python` with PyTorch and under `narthex run` without it; npu:0 needs Narthex.
The model is GPT-2's: Radford et al., "Language Models are Unsupervised Multitask Learners", 2019.
"""

import argparse
import inspect
import json
import math
import os
import sysconfig
import time
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
from torch.nn import functional as F
from tqdm import tqdm

CHARACTERS = "\n" + "".join(map(chr, range(32, 127)))  # one token each; a text's other characters are left out


@dataclass
class Config:
    block_size: int = 64
    vocab_size: int = len(CHARACTERS)
    layers: int = 4
    heads: int = 4
    width: int = 128
    dropout: float = 0.0
    bias: bool = False
    attention: str = "sdpa"  # sdpa: F.scaled_dot_product_attention; written: the same, written out


class CausalSelfAttention(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        assert config.width % config.heads == 0, f"width {config.width} is not a multiple of {config.heads} heads"
        self.qkv = nn.Linear(config.width, 3 * config.width, bias=config.bias)
        self.proj = nn.Linear(config.width, config.width, bias=config.bias)
        self.attention_dropout = nn.Dropout(config.dropout)
        self.residual_dropout = nn.Dropout(config.dropout)
        self.config = config
        mask = torch.tril(torch.ones(config.block_size, config.block_size))
        self.register_buffer("mask", mask.view(1, 1, config.block_size, config.block_size), persistent=False)

    def forward(self, x):
        batch, length, width = x.size()
        heads = self.config.heads
        q, k, v = self.qkv(x).split(width, dim=2)
        q, k, v = (t.view(batch, length, heads, width // heads).transpose(1, 2) for t in (q, k, v))
        if self.config.attention == "sdpa":
            dropout = self.config.dropout if self.training else 0.0
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=None, dropout_p=dropout, is_causal=True)
        else:
            scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            scores = scores.masked_fill(self.mask[:, :, :length, :length] == 0, float("-inf"))
            y = self.attention_dropout(F.softmax(scores, dim=-1)) @ v
        y = y.transpose(1, 2).contiguous().view(batch, length, width)
        return self.residual_dropout(self.proj(y))


class MLP(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.up = nn.Linear(config.width, 4 * config.width, bias=config.bias)
        self.gelu = nn.GELU()
        self.proj = nn.Linear(4 * config.width, config.width, bias=config.bias)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x):
        return self.dropout(self.proj(self.gelu(self.up(x))))


class Block(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.norm_1 = nn.LayerNorm(config.width, bias=config.bias)
        self.attention = CausalSelfAttention(config)
        self.norm_2 = nn.LayerNorm(config.width, bias=config.bias)
        self.mlp = MLP(config)

    def forward(self, x):
        x = x + self.attention(self.norm_1(x))
        return x + self.mlp(self.norm_2(x))


class GPT(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.transformer = nn.ModuleDict(
            dict(
                tokens=nn.Embedding(config.vocab_size, config.width),
                positions=nn.Embedding(config.block_size, config.width),
                dropout=nn.Dropout(config.dropout),
                blocks=nn.ModuleList([Block(config) for _ in range(config.layers)]),
                norm=nn.LayerNorm(config.width, bias=config.bias),
            )
        )
        self.head = nn.Linear(config.width, config.vocab_size, bias=False)
        self.transformer.tokens.weight = self.head.weight
        self.apply(self._init_weights)
        for name, p in self.named_parameters():
            if name.endswith("proj.weight"):  # the ends of the residual branches, as GPT-2 does
                torch.nn.init.normal_(p, mean=0.0, std=0.02 / math.sqrt(2 * config.layers))

    def _init_weights(self, module):
        if isinstance(module, nn.Linear):
            torch.nn.init.normal_(module.weight, mean=0.0, std=0.02)
            if module.bias is not None:
                torch.nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            torch.nn.init.normal_(module.weight, mean=0.0, std=0.02)

    def num_parameters(self):
        return sum(p.numel() for p in self.parameters())

    def forward(self, tokens, targets=None):
        """tokens: (batch, length) int64. Gives logits and the mean loss; without targets the last position's logits."""
        batch, length = tokens.size()
        assert length <= self.config.block_size, f"{length} tokens do not fit in {self.config.block_size}"
        positions = torch.arange(0, length, dtype=torch.long, device=tokens.device)
        x = self.transformer.tokens(tokens) + self.transformer.positions(positions)
        x = self.transformer.dropout(x)
        for block in self.transformer.blocks:
            x = block(x)
        x = self.transformer.norm(x)
        if targets is None:
            return self.head(x[:, -1:, :]), None
        logits = self.head(x)
        loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)
        return logits, loss

    def configure_optimizer(self, weight_decay, lr, betas, device_type):
        """AdamW; matrices decay, biases and norms do not."""
        parameters = [p for _, p in self.named_parameters() if p.requires_grad]
        groups = [
            {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": weight_decay},
            {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
        ]
        fused = "fused" in inspect.signature(torch.optim.AdamW).parameters and device_type == "cuda"
        return torch.optim.AdamW(groups, lr=lr, betas=betas, **({"fused": True} if fused else {}))


@torch.no_grad()
def generate(model, tokens, count, block_size, temperature=1.0, top_k=None):
    """Appends count tokens to tokens (batch, length), each drawn from the model; temperature 0 takes the likeliest."""
    for _ in range(count):
        logits, _ = model(tokens if tokens.size(1) <= block_size else tokens[:, -block_size:])
        logits = logits[:, -1, :]
        if temperature == 0:
            following = torch.argmax(logits, dim=-1, keepdim=True)
        else:
            logits = logits / temperature
            if top_k is not None:
                v, _ = torch.topk(logits, min(top_k, logits.size(-1)))
                logits[logits < v[:, -1:]] = -float("inf")
            following = torch.multinomial(F.softmax(logits, dim=-1), num_samples=1)
        tokens = torch.cat((tokens, following), dim=1)
    return tokens


class LastLogits(nn.Module):
    """For a program without Python: the logits of what follows place `last` of a window of block_size tokens.

    Attention looks back only, so what stands behind that place does not matter.
    """

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens, last):
        logits, _ = self.model(tokens, tokens)
        return logits[0].index_select(0, last)


def export_model(model, config, path):
    """Writes the graph with its weights. Under Narthex it is a model file that examples/c/generate.c loads, under
    PyTorch an archive of its own."""
    model.eval()
    window = torch.zeros(1, config.block_size, dtype=torch.long)
    with torch.no_grad():
        program = torch.export.export(LastLogits(model.to("cpu")), (window, torch.zeros(1, dtype=torch.long)))
    write = torch.model_file.save if hasattr(torch, "model_file") else torch.export.save
    write(program, path)


def encode(text):
    number = {c: i for i, c in enumerate(CHARACTERS)}
    return [number[c] for c in text if c in number]


def decode(tokens):
    return "".join(CHARACTERS[i] for i in tokens)


def prepare_data(folder, limit):
    """Writes train.bin and val.bin (uint16 tokens) from the standard library's modules; a tenth is held out."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    parts = {"train": [p for i, p in enumerate(paths) if i % 10], "val": paths[::10]}
    for name, files in parts.items():
        tokens = []
        for path in files:
            tokens += encode(path.read_text(encoding="utf-8", errors="ignore"))
            if len(tokens) >= limit:
                break
        whole = folder / f"{name}.bin"
        np.array(tokens[:limit], dtype=np.uint16).tofile(f"{whole}.part")
        os.replace(f"{whole}.part", whole)


def draw_batch(path, args):
    # opened anew each time: a memory map that stays open keeps every page that was touched
    data = np.memmap(path, dtype=np.uint16, mode="r")
    starts = torch.randint(len(data) - args.block_size, (args.batch_size,))
    x = torch.stack([torch.from_numpy(data[i : i + args.block_size].astype(np.int64)) for i in starts])
    y = torch.stack([torch.from_numpy(data[i + 1 : i + 1 + args.block_size].astype(np.int64)) for i in starts])
    if args.device.startswith("cuda"):
        return x.pin_memory().to(args.device, non_blocking=True), y.pin_memory().to(args.device, non_blocking=True)
    return x.to(args.device), y.to(args.device)


@torch.no_grad()
def estimate_loss(model, args, autocast):
    model.eval()
    losses = {}
    for part in ("train", "val"):
        drawn = torch.zeros(args.eval_batches)
        for k in range(args.eval_batches):
            x, y = draw_batch(args.data / f"{part}.bin", args)
            with autocast:
                _, loss = model(x, y)
            drawn[k] = loss.item()
        losses[part] = drawn.mean().item()
    model.train()
    return losses


def learning_rate(step, args):
    """Linear warm-up, then a cosine down to a tenth."""
    if step < args.warmup:
        return args.lr * (step + 1) / (args.warmup + 1)
    done = min(1.0, (step - args.warmup) / max(1, args.decay_steps - args.warmup))
    return args.lr * (0.1 + 0.9 * 0.5 * (1.0 + math.cos(math.pi * done)))


def save_checkpoint(path, model, optimizer, config, step, history):
    """A reader finds the old checkpoint or the new one, never a part of one."""
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "config": asdict(config),
        "step": step,
        "history": history,
        "rng": torch.get_rng_state(),
    }
    torch.save(state, f"{path}.part")
    os.replace(f"{path}.part", path)


def load_model_state(model, state):
    """Compiled and plain models name their weights differently."""
    model.load_state_dict({k.removeprefix("_orig_mod."): v for k, v in state.items()})


def parse_arguments(argv=None):
    with_defaults = argparse.ArgumentDefaultsHelpFormatter
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0], formatter_class=with_defaults)
    p.add_argument("--device", default="cpu", help="cpu, cuda, or npu:0 under Narthex")
    p.add_argument("--compile", action="store_true", help="train through torch.compile(model)")
    p.add_argument("--mode", default=None, help="torch.compile's mode: default, max-autotune, reduce-overhead")
    p.add_argument("--autocast", action="store_true", help="forward and loss in bfloat16 where it is safe")
    p.add_argument("--attention", choices=["sdpa", "written"], default="sdpa")
    p.add_argument("--bias", action="store_true", help="biases in linear layers and norms")
    for name in ("layers", "heads", "width", "block_size"):
        p.add_argument(f"--{name.replace('_', '-')}", type=int, default=getattr(Config, name))
    p.add_argument("--dropout", type=float, default=0.0)
    p.add_argument("--batch-size", type=int, default=12)
    p.add_argument("--accumulate", type=int, default=1, help="batches a step")
    p.add_argument("--steps", type=int, default=500)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--warmup", type=int, default=50)
    p.add_argument("--decay-steps", type=int, default=None, help="where the cosine ends [steps]")
    p.add_argument("--weight-decay", type=float, default=0.1)
    p.add_argument("--clip", type=float, default=1.0, help="largest norm of the gradients; 0 for any")
    p.add_argument("--eval-every", type=int, default=100)
    p.add_argument("--eval-batches", type=int, default=10)
    p.add_argument("--seed", type=int, default=1337)
    p.add_argument("--out", type=Path, default=Path("out"), help="checkpoint and history")
    p.add_argument("--data", type=Path, default=None, help="folder of train.bin and val.bin [OUT/data]")
    p.add_argument("--data-limit", type=int, default=2_000_000, help="characters of each part")
    p.add_argument("--resume", action="store_true", help="go on from OUT/checkpoint.pt")
    p.add_argument("--prompt", default="def ", help="what the sample continues")
    p.add_argument("--sample", type=int, default=200, help="characters of the sample")
    p.add_argument("--temperature", type=float, default=0.8, help="0 takes the likeliest character")
    p.add_argument("--top-k", type=int, default=20)
    p.add_argument("--export", type=Path, default=None, help="write the trained model to this file")
    args = p.parse_args(argv)
    args.decay_steps = args.decay_steps or args.steps
    args.data = args.data or args.out / "data"
    return args


def train_step(model, optimizer, scaler, args, autocast):
    """One step of the optimizer; gives the loss of its last batch as a tensor, so that nothing waits for it here."""
    for _ in range(args.accumulate):
        x, y = draw_batch(args.data / "train.bin", args)
        with autocast:
            _, loss = model(x, y)
            loss = loss / args.accumulate
        scaler.scale(loss).backward()
    if args.clip:
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    return loss.detach() * args.accumulate


def train(model, optimizer, config, args, step, history, autocast):
    tokens_a_step = args.accumulate * args.batch_size * args.block_size
    scaler = torch.amp.GradScaler(args.device.split(":")[0], enabled=False)
    bar = tqdm(total=args.steps, initial=step, unit="step", dynamic_ncols=True, disable=None)  # none in a log
    start = time.perf_counter()
    for now in range(step, args.steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(now, args)
        began = time.perf_counter()
        loss = train_step(model, optimizer, scaler, args, autocast).item()
        history["loss"].append(loss)
        history["seconds"].append(time.perf_counter() - began)
        rate = (now + 1 - step) * tokens_a_step / (time.perf_counter() - start)
        bar.set_postfix_str(f"loss {loss:.4f}, {rate:,.0f} tokens/s", refresh=False)
        bar.update()
        if (now + 1) % args.eval_every == 0 or now + 1 == args.steps:
            held = estimate_loss(model, args, autocast)
            history["evaluated"].append([now + 1, held["train"], held["val"]])
            bar.write(f"step {now + 1}: train {held['train']:.4f}, held-out {held['val']:.4f}")
            save_checkpoint(args.out / "checkpoint.pt", model, optimizer, config, now + 1, history)
    bar.close()


def main(argv=None):
    args = parse_arguments(argv)
    if args.device.startswith("npu"):
        import torch_npu  # noqa: F401  (adds npu:0)
    torch.manual_seed(args.seed)
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    torch.set_float32_matmul_precision("high")
    device_type = args.device.split(":")[0]
    autocast = torch.amp.autocast(device_type=device_type, dtype=torch.bfloat16) if args.autocast else nullcontext()
    args.out.mkdir(parents=True, exist_ok=True)
    if not (args.data / "val.bin").exists():
        prepare_data(args.data, args.data_limit)

    step, history, checkpoint = 0, {"loss": [], "seconds": [], "evaluated": []}, None
    config = Config(**{k: getattr(args, k) for k in asdict(Config()) if k != "vocab_size"})
    if args.resume:
        checkpoint = torch.load(args.out / "checkpoint.pt", map_location="cpu", weights_only=True)
        config, step, history = Config(**checkpoint["config"]), checkpoint["step"], checkpoint["history"]
    model = GPT(config).to(args.device)
    print(f"{model.num_parameters():,} parameters on {args.device}, {torch.__name__}")
    optimizer = model.configure_optimizer(args.weight_decay, args.lr, (0.9, 0.99), device_type)
    if checkpoint:
        load_model_state(model, checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        torch.set_rng_state(checkpoint["rng"])
    running = torch.compile(model, mode=args.mode) if args.compile else model

    train(running, optimizer, config, args, step, history, autocast)
    (args.out / "history.json").write_text(json.dumps(history))
    if args.sample:
        running.eval()
        prompt = torch.tensor([encode(args.prompt)], dtype=torch.long, device=args.device)
        torch.manual_seed(args.seed)  # the text is the model's alone, however long it was trained here
        drawn = generate(running, prompt, args.sample, config.block_size, args.temperature, args.top_k)
        print(decode(drawn[0].tolist()))
    if args.export:
        export_model(model, config, args.export)


if __name__ == "__main__":
    main()
