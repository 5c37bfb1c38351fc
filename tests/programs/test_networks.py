"""Whole programs train to PyTorch's losses over 50 steps from one seed: eagerly, compiled in both modes, on npu:0."""

from __future__ import annotations

import functools
from typing import Any

import narthex
import pytest
import torch
from narthex.compat import torch_npu

from tests.programs import networks

STEPS = 50
WAYS = {"eager": {}, "max-autotune": {"mode": "max-autotune"}, "reduce-overhead": {"mode": "reduce-overhead"},
        "npu": {"device": "npu:0"}}  # fmt: skip


@functools.cache
def wanted(build: Any) -> list[float]:
    return networks.train(torch, build, STEPS)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("build", networks.ALL, ids=lambda build: build.__name__)
def test_losses_are_pytorchs(build: Any, way: str) -> None:
    narthex._C.fallbacks_clear()
    found = networks.train(narthex, build, STEPS, **WAYS[way])
    assert torch_npu.fallbacks() == {}
    assert found == pytest.approx(wanted(build), rel=1e-4)
    assert min(found[-4:]) < found[0]
