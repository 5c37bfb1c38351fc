"""backend="narthex" inside PyTorch."""

import contextlib
import gc

import pytest
import torch
from narthex import _C, bridge
from torch import nn
from torch.nn import functional as F

from examples.gpt import GPT, Config


@pytest.fixture(autouse=True)
def fresh():
    """PyTorch forgets what it compiled: a test must not meet another one's guards or open sizes."""
    torch._dynamo.reset()
    yield


def compiled_like_eager(function, *args, **options):
    """Runs both forward and, where an input wants it, backward; returns what ran outside the engine."""
    before = len(bridge.report())

    def results(run):
        torch.manual_seed(3)
        given = [a.detach().clone().requires_grad_(a.requires_grad) if torch.is_tensor(a) else a for a in args]
        out = run(*given)
        leaves = [a for a in given if torch.is_tensor(a) and a.requires_grad]
        for each in out if isinstance(out, tuple) else (out,):
            if each.requires_grad:
                each.float().pow(2).sum().backward(retain_graph=True)
        return out, [a.grad for a in leaves]

    theirs = results(function)
    ours = results(torch.compile(function, backend=bridge.backend, **{"dynamic": False, **options}))
    torch.testing.assert_close(ours, theirs)
    return bridge.report()[before:]


def train(steps, compiled, config, batch=lambda step: 4, autocast=False):
    """The losses of a GPT's steps, with clipping and AdamW."""
    torch.manual_seed(1)
    model = GPT(config)
    running = torch.compile(model, backend=bridge.backend) if compiled else model
    optimizer = model.configure_optimizer(0.1, 1e-3, (0.9, 0.99), "cpu")
    draw = torch.Generator().manual_seed(5)
    losses = []
    for step in range(steps):
        tokens = torch.randint(config.vocab_size, (batch(step), config.block_size + 1), generator=draw)
        with torch.autocast("cpu", torch.bfloat16) if autocast else contextlib.nullcontext():
            _, loss = running(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
    return losses


def same_losses(steps, config, tolerance=1e-4, **options):
    """Losses as PyTorch's, and nothing ran outside the engine."""
    before = len(bridge.report())
    ours, theirs = (train(steps, compiled, config, **options) for compiled in (True, False))
    assert bridge.report()[before:] == []
    assert max(abs(a - b) for a, b in zip(ours, theirs)) < tolerance, list(zip(ours, theirs))


small = {"layers": 2, "width": 16, "heads": 2, "block_size": 8, "vocab_size": 20}


def test_gpt_hundred_steps():
    same_losses(100, Config(**small, attention="written", bias=True))


@pytest.mark.parametrize("attention", ["sdpa", "written"])
def test_gpt_with_dropout_draws_pytorchs_numbers(attention):
    same_losses(10, Config(**small, attention=attention, dropout=0.2))


def test_gpt_with_other_batches():
    same_losses(10, Config(**small), batch=lambda step: 2 + step % 4)


def test_gpt_under_autocast():
    same_losses(10, Config(**small), tolerance=2e-3, autocast=True)


def test_forward_only_views_and_inputs_returned():
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    assert compiled_like_eager(lambda x, y: (x + y, (x * 2).t(), x, x.t(), x[1:, 2]), x, y) == []


def test_view_of_an_input_shares_its_memory():
    x = torch.randn(3, 4)
    view, *_ = torch.compile(lambda x: (x.t()[1:], x + 1), backend=bridge.backend)(x)
    assert view.data_ptr() == x.data_ptr() + 4 and view.stride() == (1, 4)


def test_nothing_is_copied(monkeypatch):
    crossed = []

    def watch(name):
        cross = getattr(bridge, name)

        def record(value):
            made = cross(value)
            crossed.append((value.data_ptr(), made.data_ptr()))
            return made

        monkeypatch.setattr(bridge, name, record)

    watch("_from_torch")
    watch("_to_torch")
    x = torch.randn(6, 8).t()[::2].requires_grad_()
    layer = torch.compile(nn.Sequential(nn.Linear(6, 3), nn.LayerNorm(3)), backend=bridge.backend)
    layer(x).sum().backward()
    assert len(crossed) > 10 and all(theirs == ours for theirs, ours in crossed)


def test_memory_is_given_back():
    model = nn.Sequential(nn.Linear(6, 5), nn.GELU(), nn.LayerNorm(5))
    compiled, x = torch.compile(model, backend=bridge.backend), torch.randn(4, 6)

    def blocks():
        compiled(x).sum().backward()
        model.zero_grad(set_to_none=True)
        gc.collect()
        return _C.alloc_live()

    blocks()
    assert len({blocks() for _ in range(5)}) == 1


def test_operator_that_is_missing_is_reported():
    x = torch.rand(3, 2, requires_grad=True)
    (entry,) = compiled_like_eager(lambda x: (torch.renorm(x * 2, 2, 0, 1.0) + 1).t(), x)[:1]
    assert entry["operator"] == "aten::renorm" and "Narthex lacks" in entry["reason"]
    assert "test_bridge.py:" in entry["line"] and "torch.renorm(x * 2" in entry["line"]


def test_missing_operators_between_others():
    def function(x):
        for _ in range(3):
            x = torch.renorm(x.abs() + 1, 2, 0, 1.0) * 2
            x = x + torch.fake_quantize_per_tensor_affine(x, 0.1, 0, 0, 255)
        return x.softmax(-1), x.split(2, 1)[1] * 2

    told = compiled_like_eager(function, torch.randn(3, 5))
    assert {entry["operator"] for entry in told} == {
        "aten::renorm",
        "aten::fake_quantize_per_tensor_affine_cachemask",
    }


def test_pieces_of_a_tensor():
    def function(x):
        a, b, c = x.split(2, dim=1)
        d, e = x.split([1, 4], dim=-1)
        f, g, h = x.unbind(0)
        return a + b, c * 2, d + e, f * g - h

    assert compiled_like_eager(lambda x: function(x * 1), torch.randn(3, 5)) == []


def test_random_numbers_in_order():
    def function(x):
        return torch.rand(3) + F.dropout(x, 0.5) + torch.renorm(torch.rand(3, 1), 2, 0, 1.0)[:, 0] + torch.rand(3)

    compiled_like_eager(function, torch.randn(3))


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu(approximate):
    x = torch.randn(3, 4, requires_grad=True)
    assert compiled_like_eager(lambda x: F.gelu(x, approximate=approximate), x) == []


def test_mutated_input():
    def function(x, y):
        x.add_(y)
        return x * 2

    compiled_like_eager(function, torch.randn(3), torch.randn(3))


def test_non_contiguous_and_dtypes():
    for dtype in (torch.float64, torch.int64, torch.bfloat16):
        x = torch.arange(12).reshape(3, 4).to(dtype).t()
        assert compiled_like_eager(lambda x: x + x, x) == []


def test_dtype_and_device_that_are_missing():
    told = compiled_like_eager(lambda x: x.to(torch.int8).view(torch.bits8).view(torch.int8) * 2, torch.randn(3))
    assert told and any("dtype torch.bits8" in entry["reason"] for entry in told)


def test_gradient_of_some_inputs():
    x, w = torch.randn(3, 4), torch.randn(5, 4, requires_grad=True)
    compiled = torch.compile(lambda x, w: (x @ w.t()).sum(), backend=bridge.backend)
    compiled(x, w).backward()
    ours, w.grad = w.grad, None
    (x @ w.t()).sum().backward()
    torch.testing.assert_close(ours, w.grad)


def test_open_sizes_are_filled_in():
    compiled = torch.compile(lambda x: x.view(-1, 2).sum(0) * x.shape[0], backend=bridge.backend, dynamic=True)
    for n in (4, 6, 10, 4):
        x = torch.randn(n)
        torch.testing.assert_close(compiled(x), x.view(-1, 2).sum(0) * n)


def test_error_while_running_names_the_node():
    table = torch.randn(4, 2)
    compiled = torch.compile(lambda at: F.embedding(at, table) * 2, backend=bridge.backend)
    compiled(torch.tensor([1, 3]))
    with pytest.raises(RuntimeError, match=r"narthex: embedding = aten::embedding: .*\n  at .*test_bridge.py:\d+"):
        compiled(torch.tensor([1, 7]))


def test_unknown_option():
    with pytest.raises(Exception, match="unknown option 'level'"):
        torch.compile(lambda x: x + 1, backend=bridge.backend, options={"level": 3})(torch.randn(2))
