"""torch.jit.load: archives that PyTorch's scripts and traces were saved in run, with its numbers."""

import io
import zipfile
from typing import Dict, List, Optional, Tuple  # noqa: UP035  (TorchScript reads these)

import narthex as nt
import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F  # noqa: N812

pytestmark = pytest.mark.filterwarnings("ignore")


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Dropout(0.1))

    def forward(self, x):
        return F.relu(self.layers(x)).softmax(1)


class Control(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight, self.times = nn.Parameter(torch.randn(4, 4)), 3
        self.register_buffer("shift", torch.arange(4.0))
        self.names, self.table = ["a", "b"], {"k": 2.5}

    def scaled(self, x, k: int):
        return x * k + self.shift

    def forward(
        self,
        x,
        flag: bool = True,
        scale: Optional[float] = None,  # noqa: UP045
    ) -> Tuple[torch.Tensor, List[int], Dict[str, float]]:  # noqa: UP006
        out: List[int] = []  # noqa: UP006
        y = x
        for i in range(self.times):
            if flag and i % 2 == 0:
                y = self.scaled(y @ self.weight, i + 1)
            else:
                y = torch.tanh(y)
            out.append(i * 2)
        k = 0
        while k < 5:
            k += 2
            if k == 4:
                break
        if scale is not None:
            y = y * scale
        y = y.clamp(min=0.0) if bool(y.sum() > 0) else -y
        return y, out + [k, len(self.names), 7 // 2, -7 % 4], {"m": float(y.mean()), "k": self.table["k"]}


class Convolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
                                 nn.Conv2d(4, 8, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                                 nn.Linear(8, 2))  # fmt: skip

    def forward(self, x):
        return F.log_softmax(self.net(x), dim=1)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.lstm, self.gru = (
            nn.Embedding(7, 4),
            nn.LSTM(4, 5, 2, batch_first=True),
            nn.GRU(5, 3, batch_first=True),
        )
        self.cell = nn.LSTMCell(3, 3)

    def forward(self, i):
        y, (h, _) = self.lstm(self.table(i))
        z, _ = self.gru(y)
        a, b = self.cell(z[:, -1])
        return a + b, h


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0), nn.LayerNorm(8)

    def forward(self, x):
        return self.norm(self.layer(x))


class Pieces(nn.Module):
    def forward(self, x, m):
        b = x[:, 1:3]
        y = x.clone()
        y[0] = 1.0
        y[:, 0] += 2
        return (
            x[m], b, x[..., -1], y, y.to(torch.float64), torch.zeros(2, dtype=torch.int64), torch.arange(5),
            torch.cat([b, b], 1), y.view(-1, 2), y.size(), [t for t in y.split(1)],
            torch.full((2,), 3.5, dtype=torch.float64),
            torch.ones_like(y, dtype=torch.int32), y.mean(dim=1, keepdim=True), y.topk(2)[0], torch.where(y > 0, y, -y),
            F.pad(y, [1, 1]), y.sum(dtype=torch.float64), y.type_as(b), y.half().dtype == torch.float16,
        )  # fmt: skip


CASES = {
    "plain": (Plain, lambda: (torch.randn(2, 4),)),
    "control": (Control, lambda: (torch.randn(2, 4),)),
    "control by arguments": (Control, lambda: (torch.randn(2, 4), False, 2.0)),
    "convolution": (Convolution, lambda: (torch.randn(2, 1, 10, 10),)),
    "recurrent": (Recurrent, lambda: (torch.randint(0, 7, (2, 5)),)),
    "attention": (Attention, lambda: (torch.randn(2, 3, 8),)),
    "pieces": (Pieces, lambda: (torch.randn(3, 4), torch.tensor([True, False, True]))),
}
TRACED = ("plain", "convolution", "recurrent")


def flat(x) -> list:
    if isinstance(x, (list, tuple)):
        return [part for one in x for part in flat(one)]
    return flat(list(x.values())) if isinstance(x, dict) else [x]


def saved(script, **options) -> io.BytesIO:
    file = io.BytesIO()
    torch.jit.save(script, file, **options)
    file.seek(0)
    return file


def both(name: str, how: str):
    torch.manual_seed(0)
    kind, draw = CASES[name]
    module, given = kind().eval(), draw()
    script = torch.jit.trace(module, given) if how == "trace" else torch.jit.script(module)
    return torch.jit.freeze(script) if how == "freeze" else script, given


WAYS = [(name, how) for name in CASES for how in ("script", "freeze", "trace") if how != "trace" or name in TRACED]


@pytest.mark.parametrize("name, how", WAYS)
def test_the_same_numbers(name: str, how: str) -> None:
    script, given = both(name, how)
    here = nt.jit.load(saved(script))
    mine = [nt.from_dlpack(x) if isinstance(x, torch.Tensor) else x for x in given]
    with torch.no_grad(), nt.no_grad():
        wanted, found = flat(script(*given)), flat(here(*mine))
    assert len(found) == len(wanted)
    for ours, theirs in zip(found, wanted):
        if isinstance(theirs, torch.Tensor):
            torch.testing.assert_close(torch.from_dlpack(ours), theirs, rtol=1e-4, atol=1e-5)
        else:
            assert ours == pytest.approx(theirs)


def test_a_loaded_module_is_a_module() -> None:
    script, given = both("control", "script")
    here = nt.jit.load(saved(script))
    assert list(here.state_dict()) == list(script.state_dict()) and not here.training
    here.load_state_dict({name: nt.tensor(value.tolist()) * 2 for name, value in script.state_dict().items()})
    x = nt.from_dlpack(given[0])
    y = here(x)[0]
    y.sum().backward()
    assert here.weight.grad.shape == (4, 4) and here.original_name == "Control" and "torch" in here.code
    assert here.double()(x.double())[0].dtype == nt.float64
    assert here.scaled(x, 2).flatten().tolist() == pytest.approx((x * 2 + here.shift).flatten().tolist(), rel=1e-6)


def test_extra_files_and_places() -> None:
    file = saved(both("plain", "script")[0], _extra_files={"labels.txt": "a b"})
    extra = {"labels.txt": "", "none": ""}
    here = nt.jit.load(file, map_location="cpu", _extra_files=extra)
    assert extra == {"labels.txt": b"a b", "none": b""}
    assert all(p.device.type == "cpu" for p in here.parameters())


# ---- archives that somebody has changed ------------------------------------------------------------------------
def with_code(line: str) -> io.BytesIO:
    """An archive whose forward begins with another line."""
    whole = io.BytesIO()
    with zipfile.ZipFile(saved(both("pieces", "script")[0])) as old, zipfile.ZipFile(whole, "w") as new:
        for info in old.infolist():
            data = old.read(info)
            if info.filename.endswith(".py") and b"def forward" in data:
                at = data.index(b"\n    ", data.index(b"->")) + 1
                data = data[:at] + b"    " + line.encode() + b"\n" + data[at:]
            new.writestr(info, data)
    whole.seek(0)
    return whole


HOSTILE = [
    "import os",
    "__import__('os').system('true')",
    "open('x', 'w')",
    "exec('1')",
    "x.__class__",
    "().__class__.__bases__",
    "torch.__class__",
    "torch.load('x')",
    "torch.save(x, 'x')",
    "torch.from_file('x')",
    "ops.prim.__class__",
    "lambda: 1",
    "(lambda: 1)()",
    "eval('1')",
    "getattr(x, '__class__')",
    "x.tofile('x')",
    "__torch__.__class__.__mro__",
    "globals()",
    "ops.__init__.__globals__",
    "CONSTANTS.__class__",
    "getattr(ops, '__class__')",
    "torch.call.__globals__",
    "annotate.__globals__",
    "x.numpy()",
    "x.register_hook(print)",
    "x.data_ptr()",
    "x.map_(x, x)",
    "'{0.__class__}'.format(x).__class__",
    "[].__class__",
    "[1].__init__()",
    "'a'.encode()",
    "type(x)",
    "x.from_file('x')",
    "x.share_memory_()",
    """ops.prim.RaiseException("open('x', 'w')", "builtins.eval")""",
]


@pytest.mark.parametrize("line", HOSTILE)
def test_code_reaches_nothing_else(line: str, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((RuntimeError, AttributeError, NameError, NotImplementedError, TypeError)):
        nt.jit.load(with_code(line))(nt.ones(3, 4), nt.tensor([True, False, True]))
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_archive() -> None:
    file = io.BytesIO()
    torch.save({"a": torch.ones(1)}, file)
    for given in (file.getvalue(), b"PK\x03\x04 cut off", b""):
        with pytest.raises(RuntimeError, match="jit.load|torch.load|TorchScript"):
            nt.jit.load(io.BytesIO(given))
