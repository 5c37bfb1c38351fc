"""What several answers are right for, and what batches, failures and starting values of torch.linalg are."""

from __future__ import annotations

from collections.abc import Callable

import narthex as nt
import pytest
import torch

SIZES = [(4, 4), (5, 3), (3, 5), (2, 4, 3), (2, 2, 3, 4), (0, 3, 3), (3, 0), (0, 3)]
DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]


def given(size: tuple[int, ...], dtype: torch.dtype = torch.float64) -> torch.Tensor:
    wide = torch.complex128 if dtype.is_complex else torch.float64
    return torch.randn(size, generator=torch.Generator().manual_seed(3), dtype=wide).to(dtype)


def over(tensor: torch.Tensor) -> nt.Tensor:
    return nt.from_dlpack(tensor.detach())


def back(tensor: nt.Tensor) -> torch.Tensor:
    return torch.from_dlpack(tensor.detach())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("full", [False, True])
def test_svd(size: tuple[int, ...], full: bool, dtype: torch.dtype) -> None:
    matrix = given(size, dtype)
    u, s, vh = map(back, nt.linalg.svd(over(matrix), full))
    wanted = torch.linalg.svd(matrix, full)
    assert [one.shape for one in (u, s, vh)] == [one.shape for one in wanted]
    torch.testing.assert_close(s, wanted[1])
    k = s.shape[-1]
    torch.testing.assert_close((u[..., :k] * s.unsqueeze(-2)) @ vh[..., :k, :], matrix)
    torch.testing.assert_close(u.mH @ u, torch.eye(u.shape[-1], dtype=dtype).expand(u.mH.shape[:-2] + 2 * u.shape[-1:]))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("triangle", ["L", "U"])
def test_eigh(triangle: str, dtype: torch.dtype) -> None:
    matrix = given((3, 4, 4), dtype)
    values, vectors = map(back, nt.linalg.eigh(over(matrix), triangle))
    torch.testing.assert_close(values, torch.linalg.eigh(matrix, triangle)[0])
    half = matrix.tril() if triangle == "L" else matrix.triu()
    whole = half + half.mH - torch.diag_embed(matrix.diagonal(0, -2, -1))
    whole = whole - 1j * torch.diag_embed(whole.diagonal(0, -2, -1).imag) if dtype.is_complex else whole
    torch.testing.assert_close(whole @ vectors, vectors * values.unsqueeze(-2))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", [(4, 4), (2, 3, 3), (0, 0)], ids=str)
def test_eig(size: tuple[int, ...], dtype: torch.dtype) -> None:
    matrix = given(size, dtype)
    values, vectors = map(back, nt.linalg.eig(over(matrix)))
    torch.testing.assert_close(values, torch.linalg.eigvals(matrix))
    torch.testing.assert_close(matrix.to(values.dtype) @ vectors, vectors * values.unsqueeze(-2))
    torch.testing.assert_close(back(nt.linalg.eigvals(over(matrix))), values)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
def test_gradient_of_eig(dtype: torch.dtype) -> None:
    theirs = given((2, 4, 4), dtype).requires_grad_()
    mine = over(theirs).requires_grad_()
    for module, x in ((torch, theirs), (nt, mine)):
        values, vectors = module.linalg.eig(x)
        alone = module.linalg.eigvals(x).real
        ((values * values).abs().sum() + vectors.abs()[..., 0, :].sum() + alone.sum()).backward()
    torch.testing.assert_close(back(mine.grad), theirs.grad)


@pytest.mark.parametrize("name, k", [("svd", 0), ("svd", 2), ("eigh", 1), ("eig", 1)])
def test_complex_vectors_have_gradients_up_to_their_phase(name: str, k: int) -> None:
    matrix = given((3, 3), torch.complex128)
    said = []
    for module, x in ((torch, matrix.clone()), (nt, over(matrix))):
        with pytest.raises(RuntimeError) as caught:
            getattr(module.linalg, name)(x.requires_grad_())[k].sum().abs().backward()
        said.append(str(caught.value))
    assert said[0] in said[1]


@pytest.mark.parametrize("size", [(4, 4), (5, 3), (3, 5), (2, 4, 3)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
def test_gradient_of_svd_and_eigh(size: tuple[int, ...], dtype: torch.dtype) -> None:
    """Of what does not depend on the signs, or phases, of the vectors."""

    def of_svd(module: object, x: object) -> object:
        u, s, vh = module.linalg.svd(x, False)
        return (u @ vh).sum().abs() + (s * s * s).sum()

    def of_eigh(module: object, x: object) -> object:
        values, vectors = module.linalg.eigh(x @ x.mH)
        return (vectors.abs() ** 2 * values.unsqueeze(-2)).abs().sum() + (values**3).sum()

    for function in (of_svd, of_eigh):
        theirs = given(size, dtype).requires_grad_()
        mine = over(theirs).requires_grad_()
        if function is of_eigh and size[-2] > size[-1]:
            continue  # eigenvalues of 0 more than once
        function(torch, theirs).backward()
        function(nt, mine).backward()
        torch.testing.assert_close(back(mine.grad), theirs.grad)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
@pytest.mark.parametrize("size", [(4, 4), (5, 3), (3, 5), (2, 3, 4, 3)], ids=str)
@pytest.mark.parametrize("name", ["lu", "lu_factor", "qr", "pinv", "matrix_exp", "det", "slogdet", "inv"])
def test_gradients(name: str, size: tuple[int, ...], dtype: torch.dtype) -> None:
    if name in ("matrix_exp", "det", "slogdet", "inv") and size[-1] != size[-2]:
        size = size[:-1] + size[-2:-1]

    def run(module: object, x: object) -> list[object]:
        found = getattr(module.linalg, name)(x)
        return [one for one in (found if isinstance(found, tuple) else (found,)) if one.requires_grad]

    theirs = given(size, dtype).requires_grad_()
    mine = over(theirs).requires_grad_()
    for module, x in ((torch, theirs), (nt, mine)):
        total = sum((one * one * one).sum() for one in run(module, x)).abs()
        (first,) = module.autograd.grad(total, [x], create_graph=True)
        (first * first).sum().abs().backward()
    torch.testing.assert_close(back(mine.grad), theirs.grad, rtol=1e-6, atol=1e-6)


FAILURES: list[tuple[str, Callable[..., object]]] = [
    ("inv", lambda m, x: m.linalg.inv(x)),
    ("cholesky", lambda m, x: m.linalg.cholesky(x)),
    ("solve", lambda m, x: m.linalg.solve(x, x)),
    ("lu_factor", lambda m, x: m.linalg.lu_factor(x)),
    ("inverse", lambda m, x: m.inverse(x)),
    ("svd", lambda m, x: m.linalg.svdvals(x / 0)),
]


@pytest.mark.parametrize("size", [(2, 2), (3, 2, 2)], ids=str)
@pytest.mark.parametrize("call", [call for _, call in FAILURES], ids=[name for name, _ in FAILURES])
def test_failures_say_which_matrix(call: Callable[..., object], size: tuple[int, ...]) -> None:
    x = torch.zeros(size)
    if len(size) == 3:
        x[0] = torch.eye(2)
    with pytest.raises(RuntimeError) as theirs:
        call(torch, x)
    with pytest.raises(RuntimeError) as mine:
        call(nt, over(x))
    assert str(mine.value) == str(theirs.value)
    assert isinstance(mine.value, nt.linalg.LinAlgError) == isinstance(theirs.value, torch.linalg.LinAlgError)


def test_one_matrix_is_one_threads_work() -> None:
    matrices = over(given((40, 30, 30), torch.float32))
    found = []
    before = nt.get_num_threads()
    try:
        for threads in (1, 2, 3, 7):
            nt.set_num_threads(threads)
            found.append([back(one).clone() for one in (nt.linalg.inv(matrices), nt.linalg.svdvals(matrices))])
    finally:
        nt.set_num_threads(before)
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(other, found[0]))


@pytest.mark.parametrize("size", [(4, 4), (5, 3), (3, 5), (3, 2, 4)], ids=str)
def test_orthogonal_starts_where_pytorchs_does(size: tuple[int, ...]) -> None:
    torch.manual_seed(5)
    theirs = torch.nn.init.orthogonal_(torch.empty(size), 2.0)
    nt.manual_seed(5)
    mine = nt.nn.init.orthogonal_(nt.empty(*size), 2.0)
    torch.testing.assert_close(back(mine), theirs)


@pytest.mark.parametrize("name, options", [("_linalg_svd", (False, False)), ("_linalg_eigh", ("L", False))])
def test_vectors_that_are_not_wanted_have_no_elements(name: str, options: tuple[object, ...]) -> None:
    matrix = given((2, 3, 3))
    mine = getattr(nt.ops.aten, name)(over(matrix), *options)
    theirs = getattr(torch.ops.aten, name)(matrix, *options)
    for one, other in zip(mine, theirs, strict=True):
        assert tuple(one.shape) == tuple(other.shape)
        torch.testing.assert_close(back(one), other)


@pytest.mark.parametrize("size, mode", [((4, 3), "r"), ((4, 3), "complete"), ((3, 4), "r")])
def test_qr_that_has_no_gradient_says_so(size: tuple[int, int], mode: str) -> None:
    said = []
    for module, x in ((torch, given(size)), (nt, over(given(size)))):
        with pytest.raises(RuntimeError) as caught:
            module.linalg.qr(x.requires_grad_(), mode)[1].sum().backward()
        said.append(str(caught.value))
    assert said[0] in said[1]


def test_what_pytorch_differentiates_in_one_way_only() -> None:
    """The values of calls whose gradients PyTorch refuses."""
    x, tau = given((4, 3)), torch.zeros(0, dtype=torch.float64)
    mine = nt.linalg.householder_product(over(x), over(tau))
    torch.testing.assert_close(back(mine), torch.linalg.householder_product(x, tau))
    torch.testing.assert_close(back(nt.dist(over(x[0]), over(x[1]), 0)), torch.dist(x[0], x[1], 0))
    cube = torch.randn(4, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for mode in ("reduced", "complete", "r"):
        for one, other in zip(nt.linalg.qr(over(cube[:3]), mode), torch.linalg.qr(cube[:3], mode)):
            torch.testing.assert_close(back(one), other)


def test_one_result_of_lu_unpack_has_a_gradient_alone() -> None:
    for k in (1, 2):
        theirs = given((3, 4)).requires_grad_()
        mine = over(theirs).requires_grad_()
        for module, x in ((torch, theirs), (nt, mine)):
            module.lu_unpack(*module.linalg.lu_factor(x))[k].sum().backward()
        torch.testing.assert_close(back(mine.grad), theirs.grad)
