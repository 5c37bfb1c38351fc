"""Dropout: PyTorch's bits eagerly on the CPU; compiled the same as eagerly in both modes, on both devices."""

import narthex as nt
import pytest
import torch
from both import close, over, same
from narthex import _C
from narthex.compat import torch_npu  # noqa: F401  (adds npu:0)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("inplace", [True, False])
@pytest.mark.parametrize("p", [0.0, 0.2, 1.0])
def test_numbers_and_what_is_drawn_after(p, inplace, training):
    values, found = torch.randn(7, 33), []
    for module, x in ((nt, over(values)), (torch, values.clone())):
        module.manual_seed(9)
        result = module.nn.functional.dropout(x, p, training, inplace)
        assert (result is x) == (inplace or not training or p == 0)
        found.append((result, x, module.rand(3)))
    for mine, other in zip(*found):
        same(mine, other)


def test_errors():
    for module in (nt, torch):
        with pytest.raises(ValueError, match="dropout probability has to be between 0 and 1, but got -1"):
            module.nn.functional.dropout(module.ones(3), -1)
        with pytest.raises(RuntimeError, match="dropout probability has to be between 0 and 1, but got 2"):
            module.dropout(module.ones(3), 2.0, True)


def steps(device, mode=None):
    """Losses and gradients of four calls with two masks each."""

    def loss(x, w):
        y = nt.nn.functional.dropout(x @ w, 0.3)
        return nt.nn.functional.dropout(nt.tanh(y), 0.5).sum()

    generator = torch.Generator().manual_seed(1)
    x, w = (over(torch.randn(size, generator=generator)).to(device).requires_grad_() for size in ((8, 16), (16, 4)))
    called = nt.compile(loss, mode=mode, fullgraph=True) if mode else loss
    nt.manual_seed(5)
    found = []
    for _ in range(4):
        value = called(x, w)
        value.backward()
        found.append((value.item(), x.grad.tolist(), w.grad.tolist()))
        x.grad = w.grad = None
    return found


@pytest.mark.parametrize("mode", ["max-autotune", "reduce-overhead"])
@pytest.mark.parametrize("device", ["cpu", "npu:0"])
def test_compiled_is_eager(device, mode):
    _C.fallbacks_clear()
    eager = steps(device)
    assert len({row[0] for row in eager}) == 4  # every call and every replay draws anew
    assert steps(device, mode) == eager
    assert not _C.fallbacks()


def test_backward_has_the_mask():
    nt.manual_seed(0)
    x = nt.ones(1000, requires_grad=True)
    result = nt.nn.functional.dropout(x, 0.25)
    result.backward(nt.ones(1000))
    assert x.grad.tolist() == result.tolist() and 200 < (result == 0).sum().item() < 300


def test_native_dropout_on_npu_keeps_its_mask():
    x = over(torch.randn(40)).to("npu:0")
    result, mask = nt.native_dropout(x, 0.5, True)
    close(result.to("cpu"), over(x.to("cpu")) * over(mask.to("cpu")) * 2)
