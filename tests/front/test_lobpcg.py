"""torch.lobpcg beside PyTorch: eigenvalues, what vectors must do, errors, gradients."""

from __future__ import annotations

from typing import Any

import narthex as nt
import pytest
import torch
from both import close, over


def symmetric(*size: int) -> torch.Tensor:
    a = torch.randn(*size, dtype=torch.float64)
    return a + a.mT


@pytest.mark.parametrize("size", [(9, 9), (2, 9, 9)], ids=str)
@pytest.mark.parametrize("largest", [None, True, False])
@pytest.mark.parametrize("general", [False, True])
@pytest.mark.parametrize("k", [None, 1, 3])
def test_eigenpairs(size: tuple, largest: Any, general: bool, k: Any) -> None:
    torch.manual_seed(3)
    a, b = symmetric(*size), symmetric(*size)
    b = b @ b.mT + torch.eye(9, dtype=torch.float64)
    given = {"k": k, "largest": largest}
    theirs, _ = torch.lobpcg(a, B=b if general else None, niter=200, tol=1e-12, **given)
    values, vectors = nt.lobpcg(over(a), B=over(b) if general else None, **given)
    close(values, theirs, 1e-5, 1e-6)
    x, e = over(vectors), over(values)
    assert x.shape == (*size[:-1], k or 1)
    right = (b @ x if general else x) * e[..., None, :]
    torch.testing.assert_close(a @ x, right, rtol=1e-8, atol=1e-8)


def test_starts_and_errors() -> None:
    a = over(symmetric(9, 9))
    assert nt.lobpcg(a, X=nt.ones(9, 2, dtype=nt.float64))[0].shape == (2,)
    for lib in (nt, torch):
        with pytest.raises(ValueError, match="is smaller than 3 x the number of requested eigenpairs"):
            lib.lobpcg(lib.eye(5), k=2)
    with pytest.raises(ValueError, match="method must be"):
        nt.lobpcg(a, method="other")
    with pytest.raises(NotImplementedError, match="tracker"):
        nt.lobpcg(a, tracker=print)


def test_gradients() -> None:
    torch.manual_seed(1)
    a, found = symmetric(9, 9), []
    for lib in (nt, torch):
        leaf = (over(a) if lib is nt else a.clone()).requires_grad_()
        values, vectors = lib.lobpcg(leaf, k=2)
        (values * lib.tensor([1.0, 2.0], dtype=lib.float64)).sum().backward()
        grad = over(leaf.grad) if lib is nt else leaf.grad
        found.append(grad + grad.mT)
    torch.testing.assert_close(*found, rtol=1e-5, atol=1e-6)
