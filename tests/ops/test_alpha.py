"""add, sub and rsub with a factor: the product is not rounded before the sum, the factor is one of the dtype; PyTorch's
bits, but for the last numbers of its loops where the other operand is a single number or of a half type."""

from typing import Any

import narthex as nt
import pytest
import torch

CALLS = {
    "add": lambda m, a, b, f: m.add(a, b, alpha=f),
    "sub": lambda m, a, b, f: m.sub(a, b, alpha=f),
    "rsub": lambda m, a, b, f: m.rsub(a, b, alpha=f),
    "add_": lambda m, a, b, f: a.clone().add_(b, alpha=f),
    "out": lambda m, a, b, f: m.sub(a, b, alpha=f, out=m.empty_like(a)),
}
pytestmark = pytest.mark.skipif(
    torch.backends.cpu.get_cpu_capability() == "DEFAULT" or nt._C.level_name() == "base",
    reason="without fused multiply-add both round twice",
)


def ours(x: torch.Tensor) -> Any:
    return nt._C.from_dlpack(torch.utils.dlpack.to_dlpack(x))


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_one_rounding(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    for n in (1, 3, 8, 17, 64, 1001):
        rows, columns = torch.randn(3, n, dtype=dtype), torch.randn(n, 3, dtype=dtype)
        for a, b in ((rows[0], rows[1]), (columns[:, 0], rows[2]), (columns[:, 1], columns[:, 2]), (rows, columns.T)):
            theirs = CALLS[name](torch, a, b, 0.7)
            assert CALLS[name](nt, ours(a), ours(b), 0.7).tolist() == theirs.tolist()


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_factor_of_halves(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    a, b = torch.randn(2, 4096, dtype=dtype)
    assert CALLS[name](nt, ours(a), ours(b), 0.7).tolist() == CALLS[name](torch, a, b, 0.7).tolist()
