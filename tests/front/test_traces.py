"""torch.jit.trace and save: what is traced here gives the module's numbers here, loaded here, and loaded by PyTorch."""

import io
import warnings

import narthex as nt
import pytest
import torch

pytestmark = pytest.mark.filterwarnings("ignore:.*deprecated.*")
nn, F = nt.nn, nt.nn.functional


class Several(nn.Module):
    """Layers of many kinds, with names that Python cannot say."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.linear, self.drop, self.norm = nn.Linear(8, 4), nn.Dropout(0.5), nn.LayerNorm(4)
        self.lstm, self.table = nn.LSTM(4, 4, batch_first=True), nn.Embedding(5, 4)
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.register_buffer("scale", nt.arange(4.0))
        self.twin = self.linear

    def forward(self, x, more):
        y = F.adaptive_avg_pool2d(self.layers(x), 1).flatten(1)
        y = self.drop(self.twin(y)) * self.scale + more["shift"]
        y = y.view(y.size(0), -1) * y.shape[1]
        z = self.norm(self.lstm(y[None])[0])
        z = self.attention(z, z, z)[0] + self.table(nt.arange(4))[2]
        return z.reshape(z.size(0) * z.size(1), z.shape[-1] // 2, 2), [F.interpolate(x, scale_factor=2), y]


class Parts(nn.Module):
    """Indices, writes, factories, several results."""

    def forward(self, x, i):
        y = x.clone()
        y[0] = 1.0
        y[:, 1:3] += 2
        y[i] = -y[i]
        y[..., -1].mul_(3)
        values, places = y.max(1)
        a, b = y.split(2, 1) if y.dim() == 2 else (y, y)
        return (
            y, y[None, ..., ::2], y[y > 0], values, places, a, b, y.T @ y, nt.zeros(x.size(0), 2),
            y.new_ones(x.shape[1]), nt.einsum("ab->ba", y), nt.where(y > 0, y, nt.tensor(2.0)),
            nt.stack([y, y], -1).sum((0, -1)), y.long().double(), 2 / (y + 9), 1 - y, y // 2, 2 ** y.abs(),
            y.clamp(max=0.5), F.gelu(y, approximate="tanh"), F.hardswish(y.clone(), inplace=True),
            ~(y > 1) & (y < 5), F.pad(y, [1, 0], value=float("-inf")), y.chunk(2, 1)[0].contiguous(),
        )  # fmt: skip


def loop(x, weight):
    for _ in range(3):
        x = nt.tanh(x @ weight) + x.mean(-1, keepdim=True)
    return x.view(-1, x.size(-1)), {"last": x[-1]}["last"]


CASES = {
    "several": (Several, lambda n: (nt.randn(n, 3, 8, 8), {"shift": nt.randn(4)})),
    "parts": (Parts, lambda n: (nt.randn(n, 4), nt.tensor([0, 2]))),
    "function": (lambda: loop, lambda n: (nt.randn(n, 4), nt.randn(4, 4))),
    "transformer": (lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), lambda n: (nt.randn(n, 3, 8),)),
    "gru": (lambda: nn.GRU(4, 5, 2, bidirectional=True), lambda n: (nt.randn(6, n, 4),)),
}


def flat(x) -> list:
    if isinstance(x, (list, tuple)):
        return [part for one in x for part in flat(one)]
    return flat(list(x.values())) if isinstance(x, dict) else [x]


def theirs(x):
    """Inputs as PyTorch's."""
    if isinstance(x, dict):
        return {name: theirs(one) for name, one in x.items()}
    return tuple(map(theirs, x)) if isinstance(x, tuple) else torch.from_dlpack(x)


def saved(script, **options) -> io.BytesIO:
    file = io.BytesIO()
    nt.jit.save(script, file, **options)
    file.seek(0)
    return file


@pytest.mark.parametrize("name", CASES)
def test_the_same_numbers(name: str) -> None:
    """With the inputs of the trace and with others that have more rows."""
    nt.manual_seed(0)
    make, draw = CASES[name]
    made = make()
    made = made.eval() if isinstance(made, nn.Module) else made
    script = nt.jit.trace(made, draw(3))
    file = saved(script)
    here, there = nt.jit.load(file), torch.jit.load(io.BytesIO(file.getvalue()))
    again = nt.jit.load(saved(here))
    for n in (3, 5):
        given = draw(n)
        with nt.no_grad(), torch.no_grad():
            wanted = flat(made(*given))
            for one in (script, here, again):
                assert all(nt.equal(a, b) for a, b in zip(flat(one(*given)), wanted, strict=True))
            for a, b in zip(flat(there(*theirs(given))), wanted, strict=True):
                torch.testing.assert_close(a, torch.from_dlpack(b), rtol=1e-4, atol=1e-5)


def test_a_trace_is_a_module() -> None:
    """Parameters are the module's own, in its order, and take gradients; a module that is there twice stays one."""
    nt.manual_seed(0)
    module = Several().eval()
    script = nt.jit.trace(module, CASES["several"][1](2))
    assert list(script.state_dict()) == list(module.state_dict())
    assert script.linear.weight is module.linear.weight and script.twin is script.linear
    given = CASES["several"][1](4)
    script(*given)[0].sum().backward()
    mine = module.linear.weight.grad.clone()
    module.zero_grad()
    module(*given)[0].sum().backward()
    assert nt.equal(mine, module.linear.weight.grad)
    assert isinstance(script, nt.jit.ScriptModule) and isinstance(script, nt.jit.TopLevelTracedModule)
    assert script.original_name == "Several" and "torch.conv2d" in script.code and not script.training
    loaded = nt.jit.load(saved(script, _extra_files={"note": "a"}), _extra_files=(extra := {"note": ""}))
    assert extra == {"note": b"a"} and loaded.twin is loaded.linear
    there = torch.jit.load(saved(script))
    assert list(there.state_dict()) == list(module.state_dict())
    assert [p.requires_grad for p in there.parameters()] == [p.requires_grad for p in module.parameters()]


def test_training_and_random_numbers() -> None:
    """Statistics move, dropout draws anew, both as the module does with the same seed."""
    module = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.5))
    script, x = nt.jit.trace(module, nt.randn(8, 4)), nt.randn(8, 4)
    before = module[1].running_mean.clone()
    nt.manual_seed(1)
    got = script(x)
    moved = module[1].running_mean.clone()
    nt.manual_seed(1)
    assert nt.equal(got, module(x)) and not nt.equal(before, moved)


def test_methods() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def forward(self, x):
            return self.layer(x)

        def twice(self, x, y):
            return self.layer(self.layer(x)) + y

    module, x = Two(), nt.randn(2, 3)
    script = nt.jit.trace_module(module, {"forward": x, "twice": (x, x)})
    assert nt.equal(script.twice(x, x), module.twice(x, x)) and nt.equal(script(x), module(x))
    there = torch.jit.load(saved(script))
    torch.testing.assert_close(there.twice(*theirs((x, x))), torch.from_dlpack(module.twice(x, x).detach()))
    named = nt.jit.trace(module, example_kwarg_inputs={"x": x})
    assert nt.equal(named(x=x), module(x)) and nt.equal(nt.jit.freeze(named.eval())(x), module(x))


def test_what_stays_as_it_was() -> None:
    """A branch that is taken by a value is told."""

    def f(x):
        return x * 2 if x.sum() > 0 else -x

    with pytest.warns(nt.jit.TracerWarning, match="__bool__"):
        script = nt.jit.trace(f, nt.ones(2))
    assert script(-nt.ones(2)).tolist() == [-2.0, -2.0]
    seen = []
    with pytest.warns(nt.jit.TracerWarning, match="does not match"):
        nt.jit.trace(lambda x: (seen.append(1), x + len(seen))[1], nt.ones(2))
    asked = []
    nt.jit.trace(lambda x: (asked.append(nt.jit.is_tracing()), x + 1)[1], nt.ones(2), check_trace=False)
    assert asked == [True] and not nt.jit.is_tracing()


def test_inputs_are_not_written() -> None:
    x = nt.zeros(3)
    script = nt.jit.trace(lambda x: x.add_(1), x)
    assert x.tolist() == [0, 0, 0]
    assert script(x) is x and x.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    "call, kind",
    [
        (lambda t: t.jit.trace(lambda x, n: x + n, (t.ones(2), 3)), RuntimeError),
        (lambda t: t.jit.trace(lambda x: {"a": x}, t.ones(2)), RuntimeError),
        (lambda t: t.jit.trace(lambda x: (x, 3), t.ones(2)), RuntimeError),
        (lambda t: t.jit.trace(lambda x: "no", t.ones(2)), RuntimeError),
        (lambda t: t.jit.trace(lambda x: x), (RuntimeError, TypeError)),
        (lambda t: t.jit.trace(t.nn.Linear(3, 3), t.ones(2)), RuntimeError),
        (lambda t: t.jit.freeze(t.nn.Linear(3, 3)), RuntimeError),
        (lambda t: t.jit.freeze(t.jit.trace(t.nn.Linear(3, 3), t.ones(2, 3))), RuntimeError),
    ],
)
def test_errors(call, kind) -> None:
    for t in (nt, torch):
        with warnings.catch_warnings(), pytest.raises(kind):
            warnings.simplefilter("ignore")
            call(t)
    assert not nt.jit.is_tracing()


def test_what_cannot_be_saved() -> None:
    with pytest.raises(NotImplementedError, match="trace"):
        nt.jit.save(nn.Linear(2, 2), io.BytesIO())
    with pytest.raises(NotImplementedError, match="autocast"), nt.autocast("cpu"):
        nt.jit.trace(nn.Linear(2, 2), nt.ones(2, 2))


def test_a_graph_to_read():
    found = []
    for m in (nt, torch):

        class Net(m.nn.Module):
            def __init__(self, m=m) -> None:
                super().__init__()
                self.conv, self.norm, self.linear = m.nn.Conv2d(3, 4, 3), m.nn.BatchNorm2d(4), m.nn.Linear(4, 2)

            def forward(self, x, m=m):
                y = m.relu(self.norm(self.conv(x))).mean((2, 3))
                a, b = m.split(y, 2, 1)
                z = m.einsum("ij,kj->ik", a, b) @ a
                z[0, 1:] = 1.0
                return self.linear(y) + m.cat([a, z], 1)[:, None, 0].sum(), y

        def enter(module, inputs, m=m):
            if state := m._C._get_tracing_state():
                state.push_scope(type(module).__name__)

        def leave(module, inputs, made, m=m):
            if state := m._C._get_tracing_state():
                state.pop_scope()

        net = Net().eval()
        for module in net.modules():
            module.register_forward_pre_hook(enter)
            module.register_forward_hook(leave)
        graph, made = m.jit._get_trace_graph(net, m.ones(2, 3, 5, 5))
        assert m._C._get_tracing_state() is None and isinstance(made, tuple) and len(list(graph.inputs())) >= 9
        rows = []
        for node in graph.nodes():
            if not node.kind().startswith("aten::"):
                continue
            sizes = [value.type().sizes() if value.isCompleteTensor() else None for value in node.inputs()]
            rows.append((node.kind(), node.scopeName(), sizes, node.outputsSize(), str(node.inputsSize())))
        (convolution,) = graph.findAllNodes("aten::_convolution")
        taken = list(convolution.inputs())
        assert [value.toIValue() for value in taken[6:]][0] is False and len(taken) == 13
        assert [value.toIValue() for value in taken[3].node().inputs()] == [1, 1] and taken[0].toIValue() is None
        assert str(taken[0].type()) == "Tensor" and str(taken[3].type()) == "List[int]"
        (whole,) = graph.findAllNodes("aten::einsum")
        equation, operands, _ = whole.inputs()
        assert equation.toIValue() == "ij,kj->ik" and operands.node().kind() == "prim::ListConstruct"
        with pytest.raises(RuntimeError):
            convolution.input()
        assert "aten::linear" in str(graph)
        found.append(rows)
    assert found[0] == found[1]
