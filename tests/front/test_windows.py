"""torch.signal.windows and torch's older windows: PyTorch's numbers and failures."""

from __future__ import annotations

from typing import Any

import narthex as nt
import pytest
import torch

WINDOWS: dict[str, dict[str, Any]] = {
    "bartlett": {}, "blackman": {}, "cosine": {}, "exponential": {"tau": 2.5}, "gaussian": {"std": 1.5},
    "general_cosine": {"a": [0.4, 0.3, 0.2, 0.1]}, "general_hamming": {"alpha": 0.6}, "hamming": {}, "hann": {},
    "kaiser": {"beta": 5.0}, "nuttall": {},
}  # fmt: skip
OLDER = ("bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("length", [0, 1, 2, 7, 30])
@pytest.mark.parametrize("name", WINDOWS)
def test_windows(name: str, length: int, dtype: str) -> None:
    for sym in (True, False):
        options = {"sym": sym, **WINDOWS[name]}
        mine = getattr(nt.signal.windows, name)(length, dtype=getattr(nt, dtype), **options)
        theirs = getattr(torch.signal.windows, name)(length, dtype=getattr(torch, dtype), **options)
        torch.testing.assert_close(torch.from_dlpack(mine), theirs, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("periodic", [True, False])
@pytest.mark.parametrize("length", [0, 1, 2, 9])
@pytest.mark.parametrize("name", OLDER)
def test_older_windows(name: str, length: int, periodic: bool) -> None:
    mine, theirs = (getattr(module, name)(length, periodic) for module in (nt, torch))
    torch.testing.assert_close(torch.from_dlpack(mine), theirs, atol=1e-6, rtol=1e-5)
    assert getattr(nt, name)(length, requires_grad=True).requires_grad


@pytest.mark.parametrize("name, length, options", [
    ("hann", -1, {}), ("exponential", 3, {"tau": 0}), ("exponential", 3, {"center": 1}), ("gaussian", 3, {"std": -1.0}),
    ("kaiser", 3, {"beta": -1}), ("general_cosine", 3, {"a": []}),
])  # fmt: skip
def test_failures(name: str, length: int, options: dict[str, Any]) -> None:
    said = []
    for module in (nt, torch):
        with pytest.raises((ValueError, TypeError)) as error:
            getattr(module.signal.windows, name)(length, **options)
        said.append((error.type, "" if length < 0 else str(error.value)))
    assert said[0] == said[1]
