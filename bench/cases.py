"""The speed cases of operators (cases.txt) and what they are evaluated over.

Every entry of ops/ that computes something has a case or shares the loop of one that has.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any


def operands(torch: Any) -> dict[str, Any]:
    torch.manual_seed(0)
    nn = torch.nn
    x, y, z = (torch.randn(512, 512) for _ in range(3))
    found = {"torch": torch, "F": nn.functional, "aten": torch.ops.aten, "cl": torch.channels_last}
    found |= {"x": x, "y": y, "z": z, "x1": x.clone(), "p": x.abs() + 0.1, "ps": x[:32].abs() + 0.1}
    u, q = torch.rand(512, 512) * 1.8 - 0.9, torch.rand(512, 512)
    found |= {"u": u, "us": u[:64].contiguous(), "q": q, "qs": q[:64].contiguous(), "v": torch.randn(512)}
    found |= {"c": torch.randn(512, 1), "k": torch.randn(8, 1, 512), "m": x > 0, "n": y > 0, "f": torch.randn(1 << 18)}
    found |= {
        "i": torch.randint(1, 9, (512, 512)),
        "j": torch.randint(1, 9, (512, 512)),
        "i1": torch.randint(9, (512, 512)),
    }
    found |= {
        "t": torch.randint(0, 512, (512,)),
        "w": torch.randint(0, 512, (512, 512)),
        "t1": torch.randint(0, 512, (1 << 18,)),
    }
    found |= {"fi": torch.randint(0, 1 << 30, (1 << 18,)), "e": torch.randn(512, 16), "a4": torch.randn(4, 8, 128, 64)}
    found |= {
        "h": x.to(torch.float16),
        "b": x.to(torch.bfloat16),
        "d": x.to(torch.float64),
        "sv": torch.randn(512).sort()[0],
    }
    found |= {"z1": torch.complex(x, y), "z2": torch.complex(y, z), "s": (x[0] > 0) * 2.0 - 1, "s1": (x > 0) * 2.0 - 1}
    g = torch.randn(4, 64, 32, 32)
    found |= {"g": g, "g2": torch.randn(16, 128, 128), "g3": torch.randn(4, 16, 64, 64), "r64": torch.rand(64) + 0.5}
    found |= {"t4": torch.randint(0, 64, (4, 1024)), "e8": torch.randn(512, 512), "bl": torch.randn(32, 16, 16)}
    ctc = torch.randn(64, 16, 256).log_softmax(2)
    found |= {
        "ctc": ctc,
        "ct": torch.randint(1, 256, (16, 20)),
        "cn": torch.full((16,), 64),
        "tl": torch.full((16,), 20),
    }
    found["ml"] = found["t"][:32].view(32, 1).expand(32, 512).contiguous()
    found |= {"mh": torch.randn(64, 8, 64), "mw": torch.randn(192, 64), "mo": torch.randn(64, 64)}
    found |= {"xs": [torch.randn(4096) for _ in range(64)]}
    found |= {"c1": torch.randn(16, 32, 512), "k1": torch.randn(32, 32, 3), "c3": torch.randn(4, 16, 8, 16, 16)}
    found |= {"k33": torch.randn(64, 64, 3, 3), "k11": torch.randn(64, 64, 1, 1), "kdw": torch.randn(64, 1, 3, 3)}
    found |= {"kgr": torch.randn(64, 8, 3, 3), "deep": torch.randn(1, 512, 7, 7), "kdeep": torch.randn(512, 512, 3, 3)}
    found |= {"im": torch.randn(1, 3, 112, 112), "kim": torch.randn(64, 3, 7, 7), "k3": torch.randn(16, 16, 3, 3, 3)}
    found |= {"kt4": torch.randn(64, 64, 4, 4), "A": torch.randn(4096, 64), "B": torch.randn(64, 4096)}
    found |= sized(torch, 16, "x0 y0 v0 m0 t0 i0 w0") | sized(torch, 4096, "X Y V M T I W")
    return found | layers(torch, g, found["c3"])


def laid(operands: dict[str, Any], layout: str) -> dict[str, Any]:
    """The operands, those of two dimensions and more as `layout` says: `transposed` (the first two dimensions lie the
    other way round), `sliced` (every other column of something twice as wide); as they are for ""."""
    torch = operands["torch"]

    def lie(x: Any) -> Any:
        if not isinstance(x, torch.Tensor) or x.dim() < 2 or not layout:
            return x
        if layout == "transposed":
            found = x.detach().transpose(0, 1).clone(memory_format=torch.contiguous_format).transpose(0, 1)
        elif layout == "sliced":
            found = x.detach().repeat_interleave(2, -1)[..., ::2]
        else:
            raise SystemExit(f"LAYOUT={layout}: transposed, sliced")
        return found.requires_grad_(x.requires_grad)

    return {name: lie(x) for name, x in operands.items()}


def sized(torch: Any, n: int, names: str) -> dict[str, Any]:
    """Operands of n x n elements, for the families `small` and `large`."""
    x, y, w = (torch.randn(n, n) for _ in range(3))
    places = torch.randint(0, n, (n,)), torch.randint(0, n, (n, n))
    return dict(zip(names.split(), (x, y, torch.randn(n), x > 0, *places, w.requires_grad_())))


def layers(torch: Any, g: Any, c3: Any) -> dict[str, Any]:
    """What is made by operators of the side, and functions."""
    nn = torch.nn
    gp, gi = nn.functional.max_pool2d(g, 2, return_indices=True)
    _, ai = nn.functional.adaptive_max_pool2d(g, 7, return_indices=True)
    p3, i3 = nn.functional.max_pool3d(c3, 2, return_indices=True)
    found = {"gp": gp, "gi": gi, "am": (torch.randn(4, 64, 7, 7), g, ai)}
    found |= {"mp3": (p3, c3, [2, 2, 2], [2, 2, 2], [0, 0, 0], [1, 1, 1], False, i3)}
    found |= {
        "gr": torch.rand(4, 32, 32, 2) * 2.2 - 1.1,
        "gr3": torch.rand(4, 8, 16, 16, 3) * 2.2 - 1.1,
        "th": torch.randn(16, 2, 3),
    }
    found |= {"fo": torch.randn(4, 36, 4096), "fu": torch.randn(4095, 64)}
    found |= {"sq": torch.randn(16, 8, 64), "hx": torch.randn(8, 128), "lstm": nn.LSTM(64, 128), "gru": nn.GRU(64, 128)}
    found |= {
        "rnn": nn.RNN(64, 128),
        "bilstm": nn.LSTM(64, 64, 2, bidirectional=True),
        "lstm_cell": nn.LSTMCell(64, 128),
    }
    found |= {"gru_cell": nn.GRUCell(64, 128), "rnn_cell": nn.RNNCell(64, 128)}
    wanted = {"w1": torch.randn(512, 512), "g1": torch.randn(4, 64, 32, 32), "a1": torch.randn(4, 8, 128, 64)}
    found |= {name: x.requires_grad_() for name, x in wanted.items()}

    def step(x: Any, f: Any) -> None:
        with torch.enable_grad():
            torch.autograd.grad(f(), x)

    return found | {"step": step}


def cases(file: str = "cases.txt") -> list[tuple[str, str]]:
    """(family, expression), as the file has them."""
    found: list[tuple[str, str]] = []
    family = ""
    for line in Path(__file__).with_name(file).read_text().splitlines():
        if line.startswith("  "):
            found += [(family, text.strip()) for text in line.split(";") if text.strip()]
        elif not line.startswith("#"):
            family = line.removesuffix(":")
    return found
