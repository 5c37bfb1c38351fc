"""Whole models trained through torch.compile: the losses of eager mode in each mode on each device, and PyTorch's."""

import narthex as nt
import narthex.compat.torch_npu as torch_npu
import pytest
import torch
from narthex import _C

from .gpt import train

MODES = ["default", "max-autotune", "reduce-overhead"]


@pytest.fixture(scope="module")
def theirs():
    return train(torch, None)


@pytest.mark.parametrize("device", ["cpu", "npu:0"])
def test_gpt_trains_as_in_pytorch(device, theirs):
    assert train(nt, None, device) == pytest.approx(theirs, abs=1e-4)


@pytest.fixture(scope="module")
def eager():
    return {device: train(nt, None, device) for device in ("cpu", "npu:0")}


@pytest.mark.parametrize("device", ["cpu", "npu:0"])
@pytest.mark.parametrize("mode", MODES)
def test_gpt_trains_compiled_as_eagerly(mode, device, eager):
    """One graph, every operator on its device, the same bits."""
    _C.fallbacks_clear()
    assert train(nt, mode, device) == eager[device]
    assert torch_npu.fallbacks() == {}
