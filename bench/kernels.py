"""Operators one by one, at nano GPT's shapes and at a million elements: `make bench ROW=kernels`.

Each side runs all cases in one process with one thread, the sides alternate, and the best time of each case counts.
CASE=text picks the cases whose name contains it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from bench import side
from bench.rows import per_call

BATCH, TOKENS, WIDTH, HEADS, LETTERS = 12, 64, 128, 4, 65
ROWS = BATCH * TOKENS


def point_cases(torch: Any) -> dict[str, Callable[[], Any]]:
    f = torch.nn.functional
    x, y = torch.randn(1 << 20), torch.randn(1 << 20)
    h, g = torch.randn(ROWS, 4 * WIDTH), torch.randn(ROWS, 4 * WIDTH)
    p = x.abs() + 0.1
    cases = {
        "add 1M": lambda: x + y,
        "mul number 1M": lambda: x * 0.5,
        "exp 1M": lambda: x.exp(),
        "log 1M": lambda: p.log(),
        "tanh 1M": lambda: x.tanh(),
        "sigmoid 1M": lambda: x.sigmoid(),
        "erf 1M": lambda: torch.erf(x),
        "sin 1M": lambda: x.sin(),
        "cos 1M": lambda: x.cos(),
        "rsqrt 1M": lambda: p.rsqrt(),
        "sqrt 1M": lambda: p.sqrt(),
        "pow 2.5 1M": lambda: p**2.5,
        "pow 3 1M": lambda: x**3,
        "relu 1M": lambda: x.relu(),
        "silu 1M": lambda: f.silu(x),
        "gelu 1M": lambda: f.gelu(x),
        "lt 1M": lambda: x < y,
        "to bfloat16 1M": lambda: x.to(torch.bfloat16),
        "exp_ out 1M": lambda: torch.exp(x, out=y),
        "exp float64 1M": (lambda d: lambda: d.exp())(x.to(torch.float64)),
        "add bfloat16 1M": (lambda d: lambda: d + d)(x.to(torch.bfloat16)),
        "exp bfloat16 1M": (lambda d: lambda: d.exp())(x.to(torch.bfloat16)),
        "gelu (768, 512)": lambda: f.gelu(h),
        "gelu tanh (768, 512)": lambda: f.gelu(h, approximate="tanh"),
        "gelu backward (768, 512)": lambda: torch.ops.aten.gelu_backward(g, h),
        "gelu tanh backward (768, 512)": lambda: torch.ops.aten.gelu_backward(g, h, approximate="tanh"),
    }
    return cases


def row_cases(torch: Any) -> dict[str, Callable[[], Any]]:
    f, aten = torch.nn.functional, torch.ops.aten
    att, grad = torch.randn(BATCH, HEADS, TOKENS, TOKENS), torch.randn(BATCH, HEADS, TOKENS, TOKENS)
    x, g = torch.randn(BATCH, TOKENS, WIDTH), torch.randn(BATCH, TOKENS, WIDTH)
    weight, bias, logits = torch.randn(WIDTH), torch.randn(WIDTH), torch.randn(ROWS, LETTERS)
    target = torch.randint(0, LETTERS, (ROWS,))
    y, long = f.softmax(att, -1), torch.randn(1024, 1024)
    h, mean, rstd = aten.native_layer_norm(x, [WIDTH], weight, bias, 1e-5)
    log_y = f.log_softmax(logits, -1)
    mask = torch.tril(torch.ones(TOKENS, TOKENS)).view(1, 1, TOKENS, TOKENS) == 0
    table, tokens = torch.randn(LETTERS, WIDTH), torch.randint(0, LETTERS, (BATCH, TOKENS))
    return {
        "softmax (12, 4, 64, 64)": lambda: f.softmax(att, -1),
        "softmax backward": lambda: aten._softmax_backward_data(grad, y, -1, torch.float32),
        "softmax (1024, 1024)": lambda: f.softmax(long, -1),
        "softmax (1024, 1024) dim 0": lambda: f.softmax(long, 0),
        "log_softmax (768, 65)": lambda: f.log_softmax(logits, -1),
        "log_softmax backward": lambda: aten._log_softmax_backward_data(logits, log_y, -1, torch.float32),
        "cross_entropy (768, 65)": lambda: f.cross_entropy(logits, target),
        "layer_norm (12, 64, 128)": lambda: f.layer_norm(x, (WIDTH,), weight, bias),
        "layer_norm backward": lambda: aten.native_layer_norm_backward(
            g, x, [WIDTH], mean, rstd, weight, bias, [True, True, True]
        ),
        "layer_norm (1024, 1024)": lambda: f.layer_norm(long, (1024,)),
        "masked_fill (12, 4, 64, 64)": lambda: att.masked_fill(mask, float("-inf")),
        "embedding (12, 64)": lambda: f.embedding(tokens, table),
        "embedding backward": lambda: aten.embedding_dense_backward(g, tokens, LETTERS, -1, False),
        "sum 1M": lambda: long.sum(),
        "sum (1024, 1024) dim 0": lambda: long.sum(0),
        "sum (1024, 1024) dim 1": lambda: long.sum(1),
        "sum (768, 128) dim 0": lambda: x.view(ROWS, WIDTH).sum(0),
        "mean (768, 128) dim 1": lambda: x.view(ROWS, WIDTH).mean(1),
        "amax (1024, 1024) dim 1": lambda: long.amax(1),
    }


def copy_cases(torch: Any) -> dict[str, Callable[[], Any]]:
    x, a, square = torch.randn(BATCH, TOKENS, 3 * WIDTH), torch.randn(BATCH, TOKENS, HEADS, 32), torch.randn(1024, 1024)
    heads = a.transpose(1, 2).contiguous()
    y = torch.empty(1024, 1024)
    return {
        "heads first (12, 64, 4, 32)": lambda: a.transpose(1, 2).contiguous(),
        "heads last (12, 4, 64, 32)": lambda: heads.transpose(1, 2).contiguous(),
        "transpose last (12, 4, 64, 32)": lambda: heads.transpose(2, 3).contiguous(),
        "transpose (1024, 1024)": lambda: square.t().contiguous(),
        "copy_ 1M": lambda: y.copy_(square),
        "part of rows (12, 64, 384)": lambda: x[:, :, 128:256].contiguous(),
        "cat of three (12, 64, 128)": lambda: torch.cat([x[:, :, :128], x[:, :, 128:256], x[:, :, 256:]], 2),
        "add of a transposed (1024, 1024)": lambda: square + square.t(),
        "add of a row (1024, 1024)": lambda: square + square[0],
        "add of a column (1024, 1024)": lambda: square + square[:, :1],
        "fill_ 1M": lambda: y.fill_(0.5),
        "zeros 1M": lambda: torch.zeros(1024, 1024),
    }


def product_cases(torch: Any) -> dict[str, Callable[[], Any]]:
    f = torch.nn.functional
    cases: dict[str, Callable[[], Any]] = {}
    for n_in, n_out in ((128, 384), (128, 128), (128, 512), (512, 128), (128, 65)):
        x, w, b, g = torch.randn(ROWS, n_in), torch.randn(n_out, n_in), torch.randn(n_out), torch.randn(ROWS, n_out)
        cases[f"linear ({n_in}, {n_out})"] = lambda x=x, w=w, b=b: f.linear(x, w, b)
        cases[f"linear ({n_in}, {n_out}) to x"] = lambda g=g, w=w: g @ w
        cases[f"linear ({n_in}, {n_out}) to weight"] = lambda g=g, x=x: g.t() @ x
    q, k = torch.randn(BATCH, TOKENS, HEADS, 32).transpose(1, 2), torch.randn(BATCH, TOKENS, HEADS, 32).transpose(1, 2)
    att = torch.randn(BATCH, HEADS, TOKENS, TOKENS)
    half, other = torch.randn(ROWS, 128).to(torch.bfloat16), torch.randn(128, 512).to(torch.bfloat16)
    vector, square = torch.randn(1024), torch.randn(1024, 1024)
    small, three = torch.randn(4, 4), torch.randn(48, 64, 32)
    return cases | {
        "q @ k.T (12, 4, 64, 32)": lambda: q @ k.transpose(-2, -1),
        "att @ v (12, 4, 64, 64)": lambda: att @ k,
        "att.T @ v (12, 4, 64, 64)": lambda: att.transpose(-2, -1) @ k,
        "bmm (48, 64, 32)": lambda: torch.bmm(three, three.transpose(1, 2)),
        "mm bfloat16 (768, 128, 512)": lambda: half @ other,
        "mv (1024, 1024)": lambda: square @ vector,
        "mm (4, 4)": lambda: small @ small,
    }


def run(torch: Any, wanted: str) -> dict[str, float]:
    """Microseconds of each case; one that this side cannot run is left out and said on stderr."""
    figures: dict[str, float] = {}
    with torch.no_grad():
        for make in (point_cases, row_cases, copy_cases, product_cases):
            for name, function in make(torch).items():
                if wanted not in name:
                    continue
                try:
                    function()
                    once = per_call(function, 1, 3)
                    figures[name] = per_call(function, max(1, int(2000 / (once + 0.1))), 10)
                except (AttributeError, NotImplementedError, TypeError, RuntimeError) as error:
                    print(f"{name}: {type(error).__name__}: {str(error)[:100]}", file=sys.stderr)
    return figures


def main() -> int:
    best = side.best_of("bench.kernels", 3)
    print(f"{side.describe():40} {'PyTorch':>12} {'Narthex':>12} {'ratio':>7}")
    for name, theirs in best["torch"].items():
        ours = best["narthex"].get(name)
        text = f"{ours:9.2f} us {theirs / ours:6.2f}x" if ours else f"{'-':>12}"
        print(f"{name:40} {theirs:9.2f} us {text}{'  slower' if ours and ours > theirs else ''}")
    return 0
