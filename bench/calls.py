"""The calls that ordinary models make, at their sizes, both sides: `make bench-calls`. CASE=text picks calls or a
family; LEVEL, THREADS: side.py. Measured and printed as the operators are (ops.py); build/bench-calls.json keeps the
figures.

Beside `make bench-ops`, where each operator sees one size: what few rows, short rows, channels side by side or a large
vocabulary cost shows here.
"""

from __future__ import annotations

from typing import Any

from bench import ops
from bench.cases import cases


def derivatives(torch: Any) -> Any:
    """back(f, ...): f of the operands, and its derivative by each of them, for gradients that are the result itself."""

    def back(f: Any, *operands: Any) -> Any:
        with torch.enable_grad():
            leaves = [operand.detach().requires_grad_() for operand in operands]
            result = f(*leaves)
            return torch.autograd.grad(result, leaves, result.detach())

    return back


def stepping(torch: Any) -> dict[str, Any]:
    """Optimizers over twenty matrices each, which have their gradients."""

    def made(kind: Any, **how: Any) -> Any:
        parameters = [torch.nn.Parameter(torch.randn(256, 256)) for _ in range(20)]
        for parameter in parameters:
            parameter.grad = torch.randn(256, 256)
        return kind(parameters, **how)

    optim = torch.optim
    sgd = made(optim.SGD, lr=0.1, momentum=0.9)
    return {
        "sgd": sgd, "adam": made(optim.Adam), "adamw": made(optim.AdamW), "rmsprop": made(optim.RMSprop),
        "adagrad": made(optim.Adagrad), "parameters": made(optim.SGD, lr=0.1).param_groups[0]["params"],
        "averages": [torch.randn(256, 256) for _ in range(20)],
    }  # fmt: skip


def operands(torch: Any) -> dict[str, Any]:
    """The names of calls.txt."""
    torch.manual_seed(0)
    randn, nn = torch.randn, torch.nn
    image, m64 = randn(4, 64, 56, 56), randn(64, 64)
    labels = torch.randint(0, 30000, (1024,))
    return {
        "torch": torch, "F": nn.functional, "back": derivatives(torch),
        "x": randn(8, 128, 768), "h": randn(8, 128, 3072), "v": torch.rand(8, 128, 3072), "w": randn(768),
        "square": randn(768, 768), "small": randn(32, 64), "narrow": randn(10, 64), "table": randn(30000, 768),
        "tokens": torch.randint(0, 30000, (8, 128)), "logits": randn(1024, 30000), "labels": labels,
        "few": randn(64, 10), "few_labels": torch.randint(0, 10, (64,)), "scores": randn(8, 12, 128, 128),
        "mask": torch.ones(128, 128, dtype=torch.bool).tril(), "bias": randn(128, 128), "q": randn(8, 12, 128, 64),
        "k": randn(8, 12, 128, 64), "turn": randn(128, 64), "qkv": randn(8, 128, 2304),
        "heads": nn.MultiheadAttention(768, 12, batch_first=True).eval(),
        "encoder": nn.TransformerEncoderLayer(768, 12, 1024, batch_first=True).eval(),
        "image": image, "last": image.to(memory_format=torch.channels_last), "photo": randn(4, 3, 224, 224),
        "taps": randn(64, 64, 3, 3), "point": randn(256, 64, 1, 1), "deep": randn(64, 1, 3, 3),
        "up": randn(64, 32, 2, 2), "stem": randn(64, 3, 7, 7), "w64": randn(64), "mean": torch.zeros(64),
        "var": torch.ones(64), "places": torch.rand(1, 56, 56, 2) * 2 - 1,
        "bytes": torch.randint(0, 255, (4, 224, 224, 3), dtype=torch.uint8),
        "sound": randn(8, 80, 400), "filters": randn(256, 80, 5), "cube": randn(1, 16, 16, 32, 32),
        "cubes": randn(16, 16, 3, 3, 3), "lstm": nn.LSTM(128, 256, batch_first=True),
        "gru": nn.GRU(128, 256, batch_first=True), "cell": nn.LSTMCell(128, 256), "steps": randn(16, 32, 128),
        "waves": randn(64, 1024), "voice": randn(4, 16000), "window": torch.hann_window(400),
        "p": torch.rand(8, 128, 768), "chances": torch.rand(8, 30000), "places_of": labels % 1000,
        "rows": randn(1024, 64), "order": randn(8, 128, 768).argsort(-1), "sorted": randn(768).sort()[0], "m64": m64,
        "symmetric": m64 + m64.t(), "positive": m64 @ m64.t() + 100 * torch.eye(64), "many4": randn(100, 4, 4),
    } | stepping(torch)  # fmt: skip


def run(torch: Any, wanted: str) -> dict[str, float]:
    """Microseconds of each call on this side."""
    return ops.measure(torch, wanted, cases("calls.txt"), operands(torch))


if __name__ == "__main__":
    raise SystemExit(ops.report("bench.calls", cases("calls.txt"), "calls of ordinary models"))
