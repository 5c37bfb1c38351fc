"""Writes through views in compiled functions: each view has an inverse that puts the written part back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import narthex as nt
import pytest
import torch


def on_a_copy(x: Any) -> Any:
    y = x * 1
    y.select(0, 1).mul_(2)
    y.narrow(1, -2, 2).add_(1)
    y.transpose(0, 1).narrow(0, 0, 2).add_(1)
    y.permute(1, 0).unsqueeze(0).add_(3)
    y.unsqueeze(1).squeeze(1).mul_(2)
    y.view(-1).narrow(0, 3, 4).zero_()
    return y


def on_an_input(x: Any) -> Any:
    x.select(1, -1).mul_(3)
    return x.transpose(0, 1)


@pytest.mark.parametrize("mode", ["max-autotune", "reduce-overhead"])
@pytest.mark.parametrize("function", [on_a_copy, on_an_input])
def test_write(function: Callable[[Any], Any], mode: str) -> None:
    start = torch.arange(20.0).view(4, 5)
    theirs, eager, compiled = start.clone(), start.clone(), start.clone()
    expected = function(theirs)
    assert torch.equal(torch.from_dlpack(function(nt.from_dlpack(eager))), expected)
    got = nt.compile(function, mode=mode, fullgraph=True)(nt.from_dlpack(compiled))
    assert torch.equal(torch.from_dlpack(got), expected)
    assert torch.equal(eager, theirs) and torch.equal(compiled, theirs)
