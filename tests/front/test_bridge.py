"""backend="narthex" inside PyTorch."""

import pytest
import torch
from narthex import bridge


def compiled_like_eager(function, *args):
    """Runs both; returns whether everything ran in the engine."""
    before = len(bridge.report())
    theirs = function(*[arg.clone() for arg in args])
    ours = torch.compile(function, backend=bridge.backend, dynamic=False)(*[arg.clone() for arg in args])
    torch.testing.assert_close(ours, theirs)
    return bridge.report()[before:]


def test_forward_only_views_and_inputs_returned():
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    assert compiled_like_eager(lambda x, y: (x + y, (x * 2).t(), x), x, y) == []


def test_operator_that_is_missing_is_reported():
    (entry,) = compiled_like_eager(lambda x: torch.lgamma(x) + 1, torch.randn(3))
    assert entry["operators"] == ["aten::lgamma"] and "Narthex lacks" in entry["reason"]


def test_mutated_input():
    def function(x, y):
        x.add_(y)
        return x * 2

    compiled_like_eager(function, torch.randn(3), torch.randn(3))


def test_non_contiguous_and_dtypes():
    for dtype in (torch.float64, torch.int64, torch.bfloat16):
        x = torch.arange(12).reshape(3, 4).to(dtype).t()
        assert compiled_like_eager(lambda x: x + x, x) == []


def test_gradient_of_some_inputs():
    x, w = torch.randn(3, 4), torch.randn(5, 4, requires_grad=True)
    compiled = torch.compile(lambda x, w: (x @ w.t()).sum(), backend=bridge.backend)
    compiled(x, w).backward()
    ours, w.grad = w.grad, None
    (x @ w.t()).sum().backward()
    torch.testing.assert_close(ours, w.grad)


def test_unknown_option():
    with pytest.raises(Exception, match="unknown option 'level'"):
        torch.compile(lambda x: x + 1, backend=bridge.backend, options={"level": 3})(torch.randn(2))
