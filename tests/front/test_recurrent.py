"""Recurrent layers and packed sequences: values, gradients, state_dicts, texts and strides are PyTorch's."""

import narthex as nt
import pytest
import torch
from both import close, over, same
from narthex.compat import torch_npu  # noqa: F401  (makes npu:0 known)

CHOICES = {
    "plain": {},
    "layers": {"num_layers": 2},
    "both directions": {"num_layers": 2, "bidirectional": True},
    "batch first": {"batch_first": True, "bidirectional": True},
    "no bias": {"bias": False, "num_layers": 2},
    "dropout": {"num_layers": 3, "dropout": 0.4, "bidirectional": True},
    "projection": {"proj_size": 3, "num_layers": 2, "bidirectional": True},
    "projection without bias": {"proj_size": 3, "bias": False},
    "relu": {"nonlinearity": "relu", "num_layers": 2},
    "float64": {"dtype": "float64", "num_layers": 2, "bidirectional": True},
}
LAYERS = [
    (layer, choice)
    for layer in ("LSTM", "GRU", "RNN")
    for choice in CHOICES
    if (layer == "LSTM" or "projection" not in choice) and (layer == "RNN" or choice != "relu")
]


def tensors(value) -> list:
    """All tensors of nested tuples."""
    if isinstance(value, (nt.Tensor, torch.Tensor)):
        return [value]
    return [tensor for part in value if part is not None for tensor in tensors(part)]


def pair(layer: str, *sizes, dtype: str = "float32", **options):
    """The same layer in both, from one seed."""
    nt.manual_seed(0), torch.manual_seed(0)
    mine = getattr(nt.nn, layer)(*sizes, dtype=getattr(nt, dtype), **options)
    return mine, getattr(torch.nn, layer)(*sizes, dtype=getattr(torch, dtype), **options)


def compare(mine, theirs, x, call=lambda nn, layer, x: layer(x)) -> None:
    """Values, strides and gradients of a call with an input of the given elements."""
    theirs_x = x.clone().requires_grad_()
    mine_x = over(x).requires_grad_()
    nt.manual_seed(5), torch.manual_seed(5)
    got, wanted = tensors(call(nt.nn, mine, mine_x)), tensors(call(torch.nn, theirs, theirs_x))
    for a, b in zip(got, wanted, strict=True):
        close(a, b, 1e-4, 1e-5)
        assert tuple(a.stride()) == b.stride()
    sum((a * a.detach().cos()).sum() for a in got if a.requires_grad).backward()
    sum((b * b.detach().cos()).sum() for b in wanted if b.requires_grad).backward()
    close(mine_x.grad, theirs_x.grad, 1e-4, 1e-5)
    for a, b in zip(mine.parameters(), theirs.parameters(), strict=True):
        close(a.grad, b.grad, 1e-3, 1e-4)


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize(("layer", "choice"), LAYERS)
def test_layers(layer, choice):
    options = CHOICES[choice]
    dtype = getattr(torch, options.get("dtype", "float32"))
    for shape in ((4, 6, 5), (9, 5)):
        mine, theirs = pair(layer, 5, 7, **options)
        assert str(mine) == str(theirs)
        for (a, x), (b, y) in zip(mine.state_dict().items(), theirs.state_dict().items(), strict=True):
            assert a == b
            same(x, y)
        compare(mine, theirs, torch.randn(shape, dtype=dtype))


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize(("layer", "choice"), [(a, b) for a, b in LAYERS if b != "batch first"])
def test_packed(layer, choice):
    options = CHOICES[choice]

    def call(nn, module, x):
        packed = nn.utils.rnn.pack_padded_sequence(x, [3, 6, 2, 3], enforce_sorted=False)
        results, states = module(packed)
        return nn.utils.rnn.pad_packed_sequence(results, padding_value=3.0, total_length=8), states

    compare(
        *pair(layer, 5, 7, **options), torch.randn(6, 4, 5, dtype=getattr(torch, options.get("dtype", "float32"))), call
    )


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize(
    ("layer", "choice"), [(a, b) for a, b in LAYERS if b in ("both directions", "projection", "relu")]
)
def test_steps_of_several_parts(layer, choice):
    """A part has 256 rows, or one step of more."""
    for shape in ((60, 9, 5), (300, 5), (3, 290, 5)):
        mine, theirs = pair(layer, 5, 7, **CHOICES[choice])
        compare(mine, theirs, torch.randn(shape))
    lengths = [60, 60, 57, 41, 41, 40, 12, 2, 1]

    def call(nn, module, x):
        results, states = module(nn.utils.rnn.pack_padded_sequence(x, lengths))
        return results.data, states

    compare(mine, theirs, torch.randn(60, 9, 5), call)


@pytest.mark.parametrize("layer", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("batched", [True, False])
def test_given_states_and_their_gradients(layer, batched):
    mine, theirs = pair(layer, 3, 4, num_layers=2, bidirectional=True)
    x = torch.randn(*((5, 2, 3) if batched else (5, 3)))
    states = [torch.randn(*((4, 2, 4) if batched else (4, 4))) for _ in range(2 if layer == "LSTM" else 1)]
    a = [over(s).requires_grad_() for s in states]
    b = [s.clone().requires_grad_() for s in states]
    got, wanted = (
        tensors(mine(over(x), tuple(a) if len(a) > 1 else a[0])),
        tensors(theirs(x, tuple(b) if len(b) > 1 else b[0])),
    )
    for u, v in zip(got, wanted, strict=True):
        close(u, v, 1e-4, 1e-5)
    # the last state alone: no gradient reaches the results
    got[-1].sin().sum().backward()
    wanted[-1].sin().sum().backward()
    for u, v in zip(a, b, strict=True):
        close(u.grad, v.grad, 1e-4, 1e-5)


@pytest.mark.parametrize(("cell", "gates"), [("LSTMCell", 2), ("GRUCell", 1), ("RNNCell", 1)])
@pytest.mark.parametrize("bias", [True, False])
def test_cells(cell, gates, bias):
    mine, theirs = pair(cell, 3, 4, bias=bias)
    assert str(mine) == str(theirs) and list(mine.state_dict()) == list(theirs.state_dict())
    compare(mine, theirs, torch.randn(5, 3))
    compare(mine, theirs, torch.randn(3))
    h = torch.randn(5, 4)
    given = (h,) * 2 if gates == 2 else h
    x = torch.randn(5, 3)
    mine_given = tuple(map(over, given)) if gates == 2 else over(given)
    for a, b in zip(tensors(mine(over(x), mine_given)), tensors(theirs(x, given)), strict=True):
        close(a, b, 1e-4, 1e-5)


@pytest.mark.parametrize("layer", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_types(layer, dtype):
    mine, theirs = pair(layer, 6, 8, dtype=dtype)
    x = torch.randn(4, 3, 6, dtype=getattr(torch, dtype))
    close(mine(over(x))[0], theirs(x)[0], 0.02, 0.02)


@pytest.mark.parametrize("layer", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("mode", ["max-autotune", "reduce-overhead"])
def test_compiled(layer, mode):
    mine, theirs = pair(layer, 5, 7, num_layers=2, bidirectional=True)
    compiled = nt.compile(mine, fullgraph=True, mode=mode)
    x = torch.randn(4, 6, 5)
    for _ in range(2):
        mine.zero_grad(), theirs.zero_grad()
        result, wanted = compiled(over(x))[0], theirs(x)[0]
        close(result, wanted, 1e-4, 1e-5)
        result.sin().sum().backward(), wanted.sin().sum().backward()
        for a, b in zip(mine.parameters(), theirs.parameters(), strict=True):
            close(a.grad, b.grad, 1e-3, 1e-4)
    with nt.no_grad():
        close(compiled(over(x))[0], theirs(x)[0], 1e-4, 1e-5)


def test_on_npu():
    mine, theirs = pair("LSTM", 5, 7)
    x = torch.randn(4, 6, 5)
    result = mine.to("npu:0")(over(x).to("npu:0"))[0]
    assert result.device.type == "npu"
    close(result.cpu(), theirs(x)[0], 1e-4, 1e-5)
    result.sum().backward(), theirs(x)[0].sum().backward()
    close(mine.weight_hh_l0.grad.cpu(), theirs.weight_hh_l0.grad, 1e-3, 1e-4)


@pytest.mark.parametrize("layer", ["LSTM", "GRU", "RNN"])
def test_bits_do_not_depend_on_threads(layer):
    mine, _ = pair(layer, 33, 70)
    x = nt.randn(40, 37, 33)
    before, found = nt.get_num_threads(), []
    for n in (1, 2, 3, 7):
        nt.set_num_threads(n)
        mine.zero_grad()
        result = mine(x)[0]
        result.sin().sum().backward()
        found.append([over(result), *(over(p.grad) for p in mine.parameters())])
    nt.set_num_threads(before)
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            assert torch.equal(a, b)


@pytest.mark.parametrize("layer", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_second_gradients_step_by_step(layer, dtype):
    mine, theirs = pair(layer, 3, 4, dtype=dtype)
    x = torch.randn(5, 2, 3, dtype=getattr(torch, dtype))
    found = []
    with nt.backends.mkldnn.flags(enabled=dtype == "float64"):
        for module, given, library in ((mine, over(x), nt), (theirs, x.clone(), torch)):
            given.requires_grad_()
            (first,) = library.autograd.grad(module(given)[0].sin().sum(), given, create_graph=True)
            found.append(library.autograd.grad((first * first).sum(), [given, *module.parameters()]))
    for a, b in zip(*found, strict=True):
        close(a, b, 1e-4, 1e-5)


def test_second_gradients_of_the_whole_layer_are_refused():
    mine, _ = pair("GRU", 3, 4)
    x = nt.randn(5, 2, 3, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"mkldnn\.flags\(enabled=False\)"):
        nt.autograd.grad(mine(x)[0].sum(), x, create_graph=True)


def test_autocast():
    mine, theirs = pair("LSTM", 5, 7)
    x = torch.randn(4, 6, 5)
    with nt.autocast("cpu", nt.bfloat16), torch.autocast("cpu", torch.bfloat16):
        result = mine(over(x))[0]
        try:
            wanted = theirs(x)[0]
        except RuntimeError:  # PyTorch's library has none for a processor without AVX-512
            with torch.backends.mkldnn.flags(enabled=False):
                wanted = theirs(x)[0].bfloat16()
    close(result, wanted, 0.02, 0.02)


def test_functions_of_torch():
    _, layer = pair("LSTM", 3, 4, 2)
    weights, x = [w.detach() for w in layer.parameters()], torch.randn(5, 2, 3)
    h, rest = torch.zeros(2, 2, 4), (True, 2, 0.0, False, False)
    got = nt.lstm(over(x), (over(h), over(h)), list(map(over, weights)), *rest, False)
    for a, b in zip(got, torch.lstm(x, (h, h), weights, *rest, False), strict=True):
        close(a, b, 1e-4, 1e-5)
    sizes = torch.tensor([2, 2, 1])
    got = nt.lstm(over(x.view(10, 3)[:5]), over(sizes), (over(h), over(h)), list(map(over, weights)), *rest)
    for a, b in zip(got, torch.lstm(x.view(10, 3)[:5], sizes, (h, h), weights, *rest), strict=True):
        close(a, b, 1e-4, 1e-5)


MISTAKES = {
    "width": lambda t, n: n.LSTM(2, 4)(t.zeros(5, 3, 3)),
    "one dimension": lambda t, n: n.LSTM(2, 4)(t.zeros(5)),
    "GRU one dimension": lambda t, n: n.GRU(2, 4)(t.zeros(5)),
    "RNN one dimension": lambda t, n: n.RNN(2, 4)(t.zeros(5)),
    "state's batch": lambda t, n: n.LSTM(2, 4)(t.zeros(5, 3, 2), (t.zeros(1, 2, 4), t.zeros(1, 3, 4))),
    "cell's batch": lambda t, n: n.LSTM(2, 4)(t.zeros(5, 3, 2), (t.zeros(1, 3, 4), t.zeros(1, 2, 4))),
    "state's dimensions": lambda t, n: n.LSTM(2, 4)(t.zeros(5, 3, 2), (t.zeros(3, 4), t.zeros(1, 3, 4))),
    "unbatched": lambda t, n: n.LSTM(2, 4)(t.zeros(5, 2), (t.zeros(1, 3, 4), t.zeros(1, 3, 4))),
    "GRU's state": lambda t, n: n.GRU(2, 4)(t.zeros(5, 3, 2), t.zeros(1, 3, 5)),
    "GRU's dimensions": lambda t, n: n.GRU(2, 4)(t.zeros(5, 3, 2), t.zeros(5)),
    "GRU unbatched": lambda t, n: n.GRU(2, 4)(t.zeros(5, 2), t.zeros(1, 1, 4)),
    "dtype": lambda t, n: n.GRU(2, 4)(t.zeros(5, 3, 2, dtype=t.float64)),
    "no steps": lambda t, n: n.LSTM(2, 4)(t.zeros(0, 3, 2)),
    "nonlinearity": lambda t, n: n.RNN(2, 4, nonlinearity="x"),
    "dropout": lambda t, n: n.RNN(2, 4, dropout=2),
    "projection too wide": lambda t, n: n.LSTM(2, 4, proj_size=4),
    "projection negative": lambda t, n: n.LSTM(2, 4, proj_size=-4),
    "projection of a GRU": lambda t, n: n.GRU(2, 4, proj_size=2),
    "float size": lambda t, n: n.LSTM(2.0, 4),
    "no units": lambda t, n: n.LSTM(2, 0),
    "no input": lambda t, n: n.LSTM(0, 1),
    "no layers": lambda t, n: n.LSTM(2, 1, 0),
    "cell's width": lambda t, n: n.LSTMCell(2, 4)(t.zeros(3, 3)),
    "cell's state": lambda t, n: n.LSTMCell(2, 4)(t.zeros(3, 2), (t.zeros(3, 5), t.zeros(3, 5))),
    "LSTMCell's batch": lambda t, n: n.LSTMCell(2, 4)(t.zeros(3, 2), (t.zeros(2, 4), t.zeros(2, 4))),
    "cell in three dimensions": lambda t, n: n.LSTMCell(2, 4)(t.zeros(1, 3, 2)),
    "GRUCell's state": lambda t, n: n.GRUCell(2, 4)(t.zeros(3, 2), t.zeros(1, 1, 4)),
    "RNNCell's nonlinearity": lambda t, n: n.RNNCell(2, 4, nonlinearity="x")(t.zeros(3, 2)),
    "not sorted": lambda t, n: n.utils.rnn.pack_padded_sequence(t.zeros(5, 3, 2), [5, 3, 4]),
    "no length": lambda t, n: n.utils.rnn.pack_padded_sequence(t.zeros(5, 3, 2), [5, 3, 0]),
    "too few lengths": lambda t, n: n.utils.rnn.pack_padded_sequence(t.zeros(5, 3, 2), [5, 3]),
    "lengths in a matrix": lambda t, n: n.utils.rnn.pack_padded_sequence(t.zeros(5, 3, 2), t.tensor([[5, 3, 1]])),
    "short total": lambda t, n: n.utils.rnn.pad_packed_sequence(
        n.utils.rnn.pack_sequence([t.zeros(5, 2)]), total_length=3
    ),
    "nothing to pack": lambda t, n: n.utils.rnn.pack_sequence([]),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes(mistake):
    with pytest.raises(Exception) as theirs:  # noqa: PT011  (whichever PyTorch raises)
        MISTAKES[mistake](torch, torch.nn)
    with pytest.raises(type(theirs.value)) as mine:
        MISTAKES[mistake](nt, nt.nn)
    assert str(theirs.value) in str(mine.value)


def test_packing_and_back():
    x = torch.arange(30.0).view(5, 3, 2)
    for options in ({}, {"batch_first": True}):
        given = x.transpose(0, 1) if options else x
        mine = nt.nn.utils.rnn.pack_padded_sequence(over(given), [4, 5, 2], enforce_sorted=False, **options)
        theirs = torch.nn.utils.rnn.pack_padded_sequence(given, [4, 5, 2], enforce_sorted=False, **options)
        assert str(mine) == str(theirs)
        for a, b in zip(mine, theirs, strict=True):
            same(a, b)
        back = nt.nn.utils.rnn.pad_packed_sequence(mine, True, -1, 7)
        for a, b in zip(back, torch.nn.utils.rnn.pad_packed_sequence(theirs, True, -1, 7), strict=True):
            same(a, b)
    parts = [torch.randn(n, 2) for n in (4, 3, 1)]
    mine = nt.nn.utils.rnn.pack_sequence([over(p) for p in parts])
    for a, b in zip(nt.nn.utils.rnn.unpack_sequence(mine), parts, strict=True):
        same(a, b)
    assert mine.double().data.dtype == nt.float64 and mine.to("cpu") is mine
