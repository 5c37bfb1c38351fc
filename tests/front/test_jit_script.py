"""torch.jit.script: what is scripted here gives the module's numbers here, loaded here, and loaded by PyTorch; and what
PyTorch's script of the same source gives."""

# ruff: noqa: UP006, UP032, UP035, UP045  (both spellings of types and texts are read)
import copy
import io
import math
import pickle
import types
import warnings
from typing import Dict, Final, List, Optional, Tuple

import narthex as nt
import numpy as np
import pytest
import torch

pytestmark = pytest.mark.filterwarnings("ignore:.*deprecated.*")
FACTOR, SIZES, HOW = 2.5, [1, 2, 3], "twice"


def control_flow(torch):
    """A function, branches, loops."""
    nn, Tensor = torch.nn, torch.Tensor

    def helper(x: Tensor, k: float = 2.0) -> Tensor:
        if k > 1:
            return x * k
        return x

    class Branches(nn.Module):
        """A branch on a value, early returns, an optional argument, defaults."""

        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)
            self.limit, self.word, self.absent = 3, "sum", None

        def forward(self, x, y: Optional[Tensor] = None, k: int = 2):
            if y is None:
                y = x
            if x.sum() > 100:
                return y * k
            elif k == self.limit:
                z = y + 1
            else:
                z = self.fc(y)
            if self.absent is not None:
                z = self.absent(z)
            if self.word == "sum":
                z = z * 2.5
            return z + math.pi

    class Loops(nn.Module):
        """while, for, break, continue, lists, dicts and comprehensions."""

        def forward(self, x: Tensor, n: int) -> Tuple[Tensor, List[int], Dict[str, Tensor]]:
            kept: List[int] = []
            total = torch.zeros(1)
            for i in range(n):
                if i == 1:
                    continue
                if i > 5:
                    break
                kept.append(i * 2)
                total += x[i % x.size(0)].sum()
            k = 0
            while total.item() < 50 and k < 100:
                total = total * 2 + 1
                k += 1
            squares = [v * v for v in kept]
            for v, w in zip(kept, squares):
                k += v + w
            for i, v in enumerate(squares):
                k += i * v
            named = {"total": total, "x": x[:, None, ..., 0]}
            named["more"] = x.view(-1, 2)[0]
            first, last = squares[0], squares[-1]
            return x + k + first - last, kept, named

    return helper, Branches, Loops


def members(torch):
    """What modules hold: buffers, numbers, other modules."""
    nn = torch.nn

    class Buffers(nn.Module):
        """Buffers and numbers that are written, an exported method, a property, a Final."""

        scale: Final[int]

        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(1))
            self.register_buffer("last", torch.zeros(2, 4))
            self.calls, self.scale, self.history = 0, 3, [1.5, 2.5]

        @property
        def doubled(self) -> int:
            return self.calls * 2

        def forward(self, x):
            self.count += 1
            self.calls += 1
            self.last = x.detach()
            self.last[0] = 7
            if self.training:
                x = x + 1
            return x * self.scale + self.count + self.doubled + self.history[0] + self.more(x, shift=1.0)

        @torch.jit.export
        def more(self, x, shift: float = 0.0):
            return x.sum(dim=1, keepdim=True) + shift

    class Modules(nn.Module):
        """Loops over modules, parts of them by index and by name."""

        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)])
            self.seq = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
            self.named = nn.ModuleDict({"a": nn.Identity(), "b": nn.Softmax(dim=-1)})

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            for i, second in enumerate(self.layers):
                x = second(x) + i
            for name, module in self.named.items():
                if name == "b":
                    x = module(x)
            for third, other in zip(self.layers, self.seq):
                x = third(x) + other(x)
            outputs = [fourth(x) for fourth in self.seq]
            return torch.stack(outputs).sum(0) + self.layers[-1](x) + self.named["b"](x) * len(self.layers)

    return Buffers, Modules


def calls(torch, helper, Branches):
    """Calls of what Python and the library have."""
    nn, F, Tensor = torch.nn, torch.nn.functional, torch.Tensor

    class Calls(nn.Module):
        """Functions, is_scripting, unused methods, no_grad, raise, assert, f-strings, dtypes."""

        def __init__(self):
            super().__init__()
            self.act = F.relu
            self.child = Branches()

        @torch.jit.unused
        def never(self, x):
            return [y for y in (lambda: x)()]

        def forward(self, x, fine: bool = True):
            """What stands here is no code."""
            assert x.dim() == 2, f"not two but {x.dim()}"
            if not fine:
                raise ValueError("not fine")
            with torch.no_grad():
                y = x.to(torch.float64).float() + torch.ones(2, 4, dtype=torch.float32)
            if torch.jit.is_scripting():
                z = helper(x) + helper(x, k=0.5)
            else:
                z = [one for one in globals()]
            text = "{} and {}".format(x.size(0), 3)
            if len(text) == 2:
                z = self.never(x)
            top = x.max(dim=1)[0]
            a = b = z.size(1) // 2
            part = -x if 0 < a < 3 else x
            same = isinstance(x, Tensor) and x.dtype == torch.float32
            z = self.child(z, k=3) @ x.t() @ x
            return self.act(y) + z + top[:, None] + part + b + int(same), torch.cat([x, y], dim=1)

    return Calls


def layers(torch):
    """Layers of the library."""
    nn, F, Tensor = torch.nn, torch.nn.functional, torch.Tensor

    class Convolutions(nn.Module):
        """A small network of convolutions."""

        def __init__(self):
            super().__init__()
            self.features = nn.Sequential(
                nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2),
                nn.Conv2d(8, 8, 3, stride=2, groups=2, bias=False), nn.GroupNorm(2, 8), nn.SiLU(),
                nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(),
            )  # fmt: skip
            self.drop, self.head = nn.Dropout(0.5), nn.Linear(8, 5)

        def forward(self, x):
            x = self.features(x)
            return F.log_softmax(self.head(self.drop(x)), dim=1)

    class Cells(nn.Module):
        """A loop of LSTM cells, and a LSTM and a GRU beside it."""

        def __init__(self):
            super().__init__()
            self.cell, self.lstm = nn.LSTMCell(4, 6), nn.LSTM(4, 6, 2, batch_first=True, bidirectional=True)
            self.gru, self.out = nn.GRU(12, 4, batch_first=True), nn.Linear(6, 3)

        def forward(self, x, state: Optional[Tuple[Tensor, Tensor]] = None):
            if state is None:
                state = (torch.zeros(x.size(0), 6), torch.zeros(x.size(0), 6))
            h, c = state
            outputs: List[Tensor] = []
            for t in range(x.size(1)):
                h, c = self.cell(x[:, t], (h, c))
                outputs.append(self.out(h))
            y, (hn, cn) = self.lstm(x)
            z, last = self.gru(y)
            return torch.stack(outputs, dim=1), (h, c), z, hn + cn

    return Convolutions, Cells


def attention(torch):
    """Products of queries and keys, by hand."""
    nn, F, Tensor = torch.nn, torch.nn.functional, torch.Tensor

    class Attention(nn.Module):
        def __init__(self, width: int, heads: int):
            super().__init__()
            self.heads, self.width = heads, width
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

        def forward(self, x, mask: Optional[Tensor] = None):
            b, t, c = x.shape
            q, k, v = self.qkv(x).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
            scores = (q @ k.transpose(-2, -1)) / math.sqrt(c // self.heads)
            if mask is not None:
                scores = scores.masked_fill(mask == 0, float("-inf"))
            y = F.softmax(scores, dim=-1) @ v
            return self.out(y.transpose(1, 2).reshape(b, t, c))

    class Block(nn.Module):
        """A transformer of plain layers."""

        def __init__(self):
            super().__init__()
            self.table, self.norm1, self.norm2 = nn.Embedding(10, 8), nn.LayerNorm(8), nn.LayerNorm(8)
            self.attention = Attention(8, 2)
            self.wide = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8), nn.Dropout(0.1))

        def forward(self, i):
            x = self.table(i)
            mask = torch.tril(torch.ones(i.size(1), i.size(1), device=x.device))
            x = x + self.attention(self.norm1(x), mask)
            return x + self.wide(self.norm2(x))

    return Block


def functions(torch, Branches):
    """Functions of the library, and what is left."""
    nn, F = torch.nn, torch.nn.functional

    class Functions(nn.Module):
        """The functions of nn.functional."""

        def forward(self, x, weight, image):
            y = F.linear(x, weight)
            z = F.softmax(y, -1) + F.gelu(y, approximate="tanh") + F.silu(y) + F.leaky_relu(y, 0.1) + F.elu(y)
            z = z + F.layer_norm(y, (4,)) + F.normalize(y, dim=-1) + F.dropout(y, 0.5, self.training) + F.softplus(y)
            z = z + torch.sigmoid(y) + F.hardswish(y) + F.pad(y, (1, 0))[:, 1:] + F.mish(y) + F.relu6(y)
            pooled = F.max_pool2d(image, 2) + F.avg_pool2d(image, kernel_size=2) + F.adaptive_avg_pool2d(image, 4)
            loss = F.mse_loss(y, x) + F.cross_entropy(y, torch.tensor([1, 0])) + F.l1_loss(y, x, reduction="sum")
            loss = loss + F.binary_cross_entropy_with_logits(y, torch.sigmoid(x))
            return z, pooled, F.conv2d(image, torch.ones(1, 3, 3, 3), padding=1), loss, torch.einsum("ij,kj->ik", x, y)

    class Rest(Branches):
        """Static methods, keywords alone, a scripted module inside, layers of other kinds."""

        def __init__(self):
            super().__init__()
            self.inner, self.act = torch.jit.script(nn.Linear(4, 4)), torch.tanh
            self.norm = nn.BatchNorm1d(4, momentum=None)
            self.image = nn.Sequential(
                nn.ZeroPad2d(1), nn.ConvTranspose2d(3, 2, 2, stride=2), nn.InstanceNorm2d(2),
                nn.Upsample(scale_factor=2),
                nn.Upsample(size=(9, 9), mode="bilinear", align_corners=True), nn.ReflectionPad2d(1), nn.PReLU(),
            )  # fmt: skip

        @staticmethod
        def scaled(x, n: int):
            return x * n

        def widest(self, x, *, low: bool):
            return x.min().item() if low else x.abs().max().item()

        def forward(self, x, image):
            y = self.act(self.inner(x)) * self.limit + self.norm(x)
            y = self.scaled(y, 2) + self.widest(x, low=False) + F.interpolate(image, size=(2, 4)).sum((0, 1))
            y[:, 0] += x[:, 1]
            values, places = torch.topk(y, 2, dim=1)
            parts = y.split(1, dim=0)
            for part in parts:
                y = y + F.normalize(part, dim=1)
            named: Dict[str, int] = {}
            named["a"] = 1
            if "a" in named and "b" not in named:
                y = y.type(torch.float64) + named["a"]
            return y, values, places, self.image(image), F.softsign(x.T)

    return Functions, Rest


def programs(torch):
    """Modules and functions of one source for both, by name: how each is made, and its arguments."""
    helper, Branches, Loops = control_flow(torch)
    Buffers, Modules = members(torch)
    Calls = calls(torch, helper, Branches)
    Convolutions, Cells = layers(torch)
    Block = attention(torch)
    Functions, Rest = functions(torch, Branches)
    grid = torch.arange(8.0).view(2, 4) / 4
    image = torch.arange(2 * 3 * 8 * 8.0).view(2, 3, 8, 8).sin()
    return types.SimpleNamespace(
        helper=(lambda: helper, [(grid,), (grid, 0.5)]),
        branches=(Branches, [(grid,), (grid * 100,), (grid, grid + 1), (grid, None, 3)]),
        loops=(Loops, [(grid, 3), (grid, 9)]),
        buffers=(Buffers, [(grid,), (grid + 1,)]),
        modules=(Modules, [(grid,)]),
        calls=(Calls, [(grid,)]),
        convolutions=(Convolutions, [(image,)]),
        cells=(Cells, [(image[0],), (image[0][:2, :, :4].contiguous(), (torch.ones(2, 6), torch.zeros(2, 6)))]),
        block=(Block, [(torch.arange(8).view(2, 4),)]),
        rest=(Rest, [(grid, image)]),
        functions=(Functions, [(grid, grid.repeat(2, 1), image)]),
    )


OURS, THEIRS = programs(nt), programs(torch)
for _cases in (OURS, THEIRS):
    _cases.cells[1][0] = (_cases.cells[1][0][0][:, :, :4].contiguous(),)
NAMES = list(vars(OURS))


def flat(x) -> list:
    """The tensors and numbers of a result."""
    if isinstance(x, dict):
        return [one for key in sorted(x) for one in flat(x[key])]
    return [one for part in x for one in flat(part)] if isinstance(x, (tuple, list)) else [x]


def same(mine, theirs) -> None:
    """Whether results are the same within rounding."""
    mine, theirs = flat(mine), flat(theirs)
    assert len(mine) == len(theirs)
    for one, other in zip(mine, theirs):
        if isinstance(one, (nt.Tensor, torch.Tensor)):
            torch.testing.assert_close(torch.tensor(one.tolist()), torch.tensor(other.tolist()), rtol=1e-4, atol=1e-5)
        else:
            assert one == other


def pair(name: str):
    """The program here and in PyTorch, with one state."""
    mine, theirs = getattr(OURS, name)[0](), getattr(THEIRS, name)[0]()
    if isinstance(mine, nt.nn.Module):
        kinds = {key: one.dtype for key, one in theirs.state_dict().items()}
        theirs.load_state_dict(
            {key: torch.tensor(one.tolist(), dtype=kinds[key]) for key, one in mine.state_dict().items()}
        )
        mine.eval(), theirs.eval()
    return mine, theirs


def archive(script) -> io.BytesIO:
    """What a script saves."""
    file = io.BytesIO()
    nt.jit.save(script, file)
    file.seek(0)
    return file


@pytest.mark.parametrize("name", NAMES)
def test_script(name: str) -> None:
    mine, theirs = pair(name)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        script = nt.jit.script(mine)
    assert isinstance(script, (nt.jit.ScriptModule, nt.jit.ScriptFunction))
    wanted = torch.jit.script(theirs)
    file = archive(script)
    there = torch.jit.load(io.BytesIO(file.getvalue()))
    here = nt.jit.load(io.BytesIO(file.getvalue()))
    for given, other in zip(getattr(OURS, name)[1], getattr(THEIRS, name)[1]):
        expected = wanted(*copy.deepcopy(other))
        for run, args in ((script, given), (here, given), (there, other)):
            same(run(*copy.deepcopy(args)), expected)


def test_what_pytorch_scripts_is_read() -> None:
    for name in ("branches", "modules", "convolutions", "block"):
        mine, theirs = pair(name)
        file = io.BytesIO()
        torch.jit.save(torch.jit.script(theirs), file)
        file.seek(0)
        for args in getattr(OURS, name)[1]:
            same(nt.jit.load(file)(*args), mine(*args))
            file.seek(0)


def test_a_script_has_the_module() -> None:
    module = OURS.buffers[0]()
    script = nt.jit.script(module)
    assert script.count is module.count and script.calls == 0 and script.original_name == "Buffers"
    x = OURS.buffers[1][0][0]
    other = copy.deepcopy(module)
    same(script(x), other(x))
    assert script.calls == 1 and module.calls == 0 and module.count.item() == 1  # the buffer is one
    assert script.training and not script.eval().training
    same(script.more(x, 2.0), x.sum(1, keepdim=True) + 2)
    twin = copy.deepcopy(script)
    same(twin(x), script(x))
    assert nt.jit.script(script) is script
    network = nt.jit.script(OURS.convolutions[0]())
    assert list(network.state_dict()) == list(OURS.convolutions[0]().state_dict())
    assert "def forward(self, x: Tensor)" in network.code
    loss = network(OURS.convolutions[1][0][0]).sum()
    loss.backward()
    assert all(one.grad is not None for one in network.parameters())
    assert not network.eval().drop.training


def test_what_raises() -> None:
    script = nt.jit.script(OURS.calls[0]())
    x = OURS.calls[1][0][0]
    with pytest.raises(ValueError, match="not fine"):
        script(x, False)
    with pytest.raises(AssertionError, match="not two but 1"):
        script(x[0])
    there = torch.jit.load(archive(script))
    with pytest.raises(torch.jit.Error, match="not fine"):
        there(torch.ones(2, 4), False)


@nt.jit.script
def scripted(x, k: int = 3):
    if k > 2:
        return x * k
    return x


def test_a_function_stays_python() -> None:
    x = nt.arange(3.0)
    assert isinstance(scripted, nt.jit.ScriptFunction) and scripted.__name__ == "scripted"
    same(scripted(x), x * 3)
    assert copy.deepcopy(scripted) is scripted and pickle.loads(pickle.dumps(scripted)) is scripted
    assert scripted.code.startswith("def scripted(x: Tensor, k: int=3):")
    same(torch.jit.load(archive(scripted))(torch.arange(3.0), 1), nt.arange(3.0))
    traced = nt.jit.trace(lambda x: scripted(x) + 1, nt.ones(3))
    same(traced(x), x * 3 + 1)
    compiled = nt.compile(lambda x: scripted(x) + 1, fullgraph=True)
    same(compiled(x), x * 3 + 1)
    same(nt.vmap(scripted)(x), x * 3)


class Globals(nt.nn.Module):
    def forward(self, x):
        if HOW == "twice":
            x = x * 2
        return x.view(-1, SIZES[1]) * FACTOR


def test_numbers_and_texts_around_are_constants() -> None:
    x = nt.arange(4.0)
    script = nt.jit.script(Globals())
    assert "HOW" not in script.code and "[1, 2, 3][1]" in script.code
    same(script(x), Globals()(x))
    same(torch.jit.load(archive(script))(torch.arange(4.0)), Globals()(x))


class Doubled(nt.nn.Linear):
    def forward(self, x):
        return super().forward(x) * 2


class Fourfold(Doubled):
    def forward(self, x):
        return super().forward(x) * 2


def test_super_is_written_under_a_name_of_its_own() -> None:
    module, x = Fourfold(3, 2), nt.ones(2, 3)
    script = nt.jit.script(module)
    same(script(x), module(x))
    same(torch.jit.load(archive(script))(torch.ones(2, 3)), module(x))


def test_compile_lets_a_script_be() -> None:
    module, x = nt.jit.script(OURS.branches[0]()), OURS.branches[1][0][0]
    for run, wanted in ((nt.compile(module), module(x)), (nt.compile(lambda x: module(x) + 1), module(x) + 1)):
        assert nt.equal(run(x), wanted)
    same(nt.jit.trace(nt.nn.Sequential(nt.jit.script(nt.nn.Linear(4, 2))), x)(x).shape, (2, 2))


class Tries(nt.nn.Module):
    def forward(self, x):
        try:
            return x + 1
        except ValueError:
            return x


class Ignores(nt.nn.Module):
    @nt.jit.ignore
    def aside(self, x):
        return x

    def forward(self, x):
        return self.aside(x)


class Starred(nt.nn.Module):
    def forward(self, *args):
        return args[0]


class Unread(nt.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nt.nn.TransformerEncoderLayer(4, 2)

    def forward(self, x):
        return self.layer(x)


@pytest.mark.parametrize("made, why", [
    (Tries, "test_jit_script.py:[0-9]+: the statement try"), (Ignores, "the ignored method aside"),
    (Starred, "args"), (Unread, "nn.TransformerEncoderLayer, a layer without a text"),
    (lambda: nt.nn.Sequential(nt.nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular")), "padding_mode='circular'"),
    (lambda: nt.nn.Sequential(nt.nn.Embedding(3, 4, max_norm=1.0)), "max_norm=1.0"),
    (lambda: nt.nn.Sequential(nt.nn.LSTM(3, 4, proj_size=2)), "proj_size=2"),
])  # fmt: skip
def test_what_has_no_text_is_given_back(made, why: str, monkeypatch) -> None:
    monkeypatch.setattr(nt.jit, "_told", False)
    module = made()
    with pytest.warns(UserWarning, match=why):
        assert nt.jit.script(module) is module
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert nt.jit.script(module) is module  # told once
    with pytest.raises(NotImplementedError, match=why):
        nt.jit.save(module, io.BytesIO())


def test_a_function_without_a_text_tells_why() -> None:
    fn = nt.jit.script(lambda x: x + 1)
    same(fn(nt.ones(2)), nt.ones(2) + 1)
    with pytest.raises(NotImplementedError, match="which is no def"):
        fn.save(io.BytesIO())


def test_script_modules_of_ones_own(tmp_path):
    found = []
    for m in (nt, torch):

        class Own(m.jit.ScriptModule):
            def __init__(self, m=m) -> None:
                super().__init__()
                self.linear = m.nn.Linear(3, 2)
                self.scale = 2.0

            @m.jit.script_method
            def forward(self, x):
                return self.linear(x).relu() * self.scale

            @m.jit.script_method
            def twice(self, x):
                return self.forward(x) * 2

        m.manual_seed(0)
        net, x = Own(), m.ones(4, 3)
        assert isinstance(net, m.nn.Module) and isinstance(net, m.jit.ScriptModule) and m.jit.script(net) is net
        assert len(list(net.parameters())) == 2 and not isinstance(m.nn.Linear(1, 1), m.jit.ScriptModule)
        net(x).sum().backward()
        net.save(str(tmp_path / m.__name__))
        loaded = m.jit.load(str(tmp_path / m.__name__))
        assert m.equal(loaded(x), net(x)) and m.equal(loaded.twice(x), net.twice(x))
        found.append([net.twice(x).detach().numpy(), net.linear.weight.grad.numpy()])
    for mine, theirs in zip(*found):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6)
    assert torch.equal(torch.jit.load(str(tmp_path / "narthex"))(torch.ones(4, 3)), torch.from_numpy(found[0][0] / 2))


class Lacking(nt.jit.ScriptModule):
    def forward(self, x):
        try:
            return x + 1
        except RuntimeError:
            return x


def test_a_script_module_of_ones_own_without_code_runs():
    assert Lacking()(nt.ones(1)).item() == 2
    with pytest.raises(NotImplementedError, match="no code for Lacking"):
        Lacking().save("nowhere")
