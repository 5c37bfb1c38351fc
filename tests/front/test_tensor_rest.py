"""Methods of Tensor that few programs call, beside PyTorch."""

from __future__ import annotations

import gc
import os
import warnings
from typing import Any

import narthex as nt
import pytest
import torch
from both import LIBS, both, close, over, same


@pytest.mark.parametrize("name, sizes", [
    ("addmv_", ((3,), (3, 4), (4,))), ("addr_", ((3, 4), (3,), (4,))), ("addbmm_", ((3, 5), (2, 3, 4), (2, 4, 5))),
    ("baddbmm_", ((2, 3, 5), (2, 3, 4), (2, 4, 5))),
])  # fmt: skip
@pytest.mark.parametrize("keywords", [{}, {"beta": 0.5, "alpha": 2}, {"beta": 0}], ids=str)
def test_products_in_place(name: str, sizes: tuple, keywords: dict) -> None:
    torch.manual_seed(0)
    given = [torch.randn(size) for size in sizes]
    grads: list = []
    for lib in LIBS:
        a, b, c = ((over(x) if lib is nt else x.clone()).requires_grad_() for x in given)
        y = a * 1
        view = y.view(-1)
        assert getattr(y, name)(b, c, **keywords) is y and y._version == 1
        (y.sin().sum() + view.cos().sum()).backward()
        grads.append((y.detach(), a.grad, b.grad, c.grad))
    for mine, theirs in zip(*grads):
        close(mine, theirs, 1e-4, 1e-5)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place"):
        getattr(nt.zeros(sizes[0]).requires_grad_(), name)(*(over(x) for x in given[1:]))


def test_in_place_must_have_the_size() -> None:
    for call in (lambda lib: lib.zeros(1).addmv_(lib.ones(3, 4), lib.ones(4)),
                 lambda lib: lib.zeros(5).baddbmm_(lib.ones(2, 3, 4), lib.ones(2, 4, 5)),
                 lambda lib: lib.zeros(4).addr_(lib.ones(3), lib.ones(4))):  # fmt: skip
        mine, theirs = both(call)
        assert type(mine) is type(theirs) is RuntimeError, (mine, theirs)
    mine, theirs = both(lambda lib: lib.zeros(5).addbmm_(lib.ones(2, 3, 4), lib.ones(2, 4, 5)))  # has another size now
    close(mine, theirs)


def test_renorm() -> None:
    for seed in range(5):
        torch.manual_seed(seed)
        x = torch.randn(3, 4, 2)
        grads = []
        for lib in LIBS:
            leaf = (over(x) if lib is nt else x.clone()).requires_grad_()
            y = leaf * 1
            assert y.renorm_(2, 1, 1.0) is y
            (y**2 * 3).sum().backward()
            grads.append((y.detach(), leaf.grad))
        close(grads[0][0], grads[1][0])
        close(grads[0][1], grads[1][1], 1e-4, 1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_logaddexp2(dtype: str) -> None:
    inf = float("inf")
    x = torch.tensor([0.0, 1, -3, 100, inf, -inf, inf, -inf, float("nan"), 1e-3, 7], dtype=getattr(torch, dtype))
    a, b = x[:, None].expand(11, 11).contiguous(), x[None].expand(11, 11).contiguous()
    close(nt.logaddexp2(over(a), over(b)), torch.logaddexp2(a, b), 1e-2 if x.itemsize == 2 else 1e-6)
    close(over(a).logaddexp2(over(b)), a.logaddexp2(b), 1e-2 if x.itemsize == 2 else 1e-6)
    for mine, theirs in (both(lambda lib: lib.logaddexp2(lib.tensor(1), lib.tensor(2))),):
        assert isinstance(mine, NotImplementedError) and isinstance(theirs, NotImplementedError)
    grads = []
    for lib in LIBS:
        u, v = (lib.tensor([0.5, 2.0, -3.0], dtype=lib.float64, requires_grad=True) for _ in range(2))
        lib.logaddexp2(u * 2, v).sum().backward()
        grads.append((u.grad, v.grad))
    close(grads[0][0], grads[1][0])
    close(grads[0][1], grads[1][1])


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "uint8", "bool"])
def test_hash_tensor(dtype: str) -> None:
    torch.manual_seed(0)
    x = (torch.randn(3, 4, 5) * 100).abs().to(getattr(torch, dtype))
    for keywords in ({}, {"dim": 1}, {"dim": (0, -1)}, {"dim": (), "keepdim": True}, {"dim": 2, "keepdim": True}):
        mine, theirs = nt.hash_tensor(over(x), **keywords), torch.hash_tensor(x, **keywords)
        assert str(mine.dtype) == "torch.uint64" and mine.tolist() == theirs.tolist()
        assert over(x).hash_tensor(**keywords).tolist() == theirs.tolist()
    for call in (lambda lib: lib.ones(2).hash_tensor(mode=1), lambda lib: lib.ones(2).hash_tensor(3)):
        mine, theirs = both(call)
        assert type(mine) is type(theirs) and str(theirs) in str(mine)
    for call in (lambda lib: lib.zeros(0, 2).hash_tensor(), lambda lib: lib.zeros(0, 2).hash_tensor(0)):
        mine, theirs = both(call)
        assert type(mine) is type(theirs) and str(mine) == str(theirs)
    assert nt.zeros(0, 2).hash_tensor(1).tolist() == torch.zeros(0, 2).hash_tensor(1).tolist() == []


def test_lu_resize_slice_inverse_module_load() -> None:
    x = torch.tensor([[2.0, 1, 3], [4, 5, 1], [7, 2, 2]])
    for keywords in ({}, {"get_infos": True}):
        for mine, theirs in zip(over(x).lu(**keywords), x.lu(**keywords), strict=True):
            close(mine, theirs)
    assert len(nt.zeros(2, 2).lu()) == 2  # singular, which get_infos alone tells
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for call in (lambda lib: lib.arange(6.0).resize(3, 2), lambda lib: lib.arange(6.0).resize(2, 1, 3),
                     lambda lib: lib.arange(6.0).view(2, 3).resize_as(lib.ones(6))):  # fmt: skip
            mine, theirs = both(call)
            same(mine, theirs)
        mine, theirs = both(lambda lib: lib.arange(6.0).resize(4))
        assert str(mine) == str(theirs)
    assert {str(one.message) for one in said} >= {
        "non-inplace resize is deprecated",
        "non-inplace resize_as is deprecated",
    }
    for mine, theirs in (both(lambda lib: lib.slice_inverse(lib.arange(6.0), lib.arange(6.0)[2:4], 0, 2, 4)),
                         both(lambda lib: lib.arange(6.0).slice_inverse(lib.zeros(2), 0, 1, 3))):  # fmt: skip
        same(mine, theirs)
    for lib in LIBS:
        x, y = lib.zeros(2), lib.ones(2, requires_grad=True)
        with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
            y.module_load(x)
        loaded = x.module_load(lib.full((2,), 3.0))
        assert x.tolist() == [3, 3] and loaded.data_ptr() == x.data_ptr()
        assert x.module_load(y, assign=True).data_ptr() == y.data_ptr()


def test_grad_dtype() -> None:
    x = nt.ones(2, requires_grad=True)
    assert x.grad_dtype is nt.float32
    x.grad_dtype = nt.float32
    with pytest.raises(NotImplementedError, match="others are not there yet"):
        x.grad_dtype = nt.float64
    with pytest.raises(RuntimeError, match="can only be accessed on leaf tensors"):
        (x * 2).grad_dtype  # noqa: B018


def test_what_pytorch_took_away() -> None:
    for name in ("eig", "symeig", "lstsq", "solve"):
        mine, theirs = both(lambda lib, name=name: getattr(lib.ones(2, 2), name)(lib.ones(2, 2)))
        assert type(mine) is type(theirs) is RuntimeError and str(mine)[:67] == str(theirs)[:67]
    for name in ("xpu", "mtia", "ipu", "reinforce"):
        args = (1,) if name == "reinforce" else ()
        mine, theirs = both(lambda lib, name=name, args=args: getattr(lib.ones(2), name)(*args))
        assert type(mine) is type(theirs), (mine, theirs)


def in_a_child(write: Any) -> None:
    child = os.fork()
    if child == 0:
        try:
            write()
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def test_memory_that_a_forked_process_shares() -> None:
    x = nt.arange(6.0).view(2, 3).t()
    y = nt.arange(6.0).view(2, 3).clone()
    weight = nt.nn.Parameter(nt.ones(3))
    with pytest.raises(NotImplementedError, match="other tensors show the same memory"):
        x.share_memory_()
    assert not y.is_shared() and y.share_memory_() is y and y.is_shared() and y.share_memory_() is y
    assert weight.share_memory_().is_shared() and weight.requires_grad and weight.is_leaf
    view = y[1]
    assert view.is_shared() and y.detach().is_shared() and not (y * 1).is_shared()
    before = y.clone()
    in_a_child(lambda y=y: (y.mul_(2), weight.data.fill_(5)))
    same(y, over(before * 2))
    assert view.tolist() == [6, 8, 10] and weight.tolist() == [5, 5, 5]
    (weight * 2).sum().backward()
    assert weight.grad.tolist() == [2, 2, 2]
    shared = nt.nn.Linear(2, 2).share_memory()
    assert all(p.is_shared() for p in shared.parameters())
    with pytest.raises(RuntimeError, match="has no memory that processes share"):
        nt.ones(2, device="meta").share_memory_()
    del y, view
    gc.collect()
    assert not any(nt.ones(2, 3).is_shared() for _ in range(50))


def test_from_file(tmp_path: Any) -> None:
    path = str(tmp_path / "numbers")
    for lib in LIBS:
        made = lib.from_file(path, shared=True, size=4, dtype=lib.float64)
        made.copy_(lib.arange(4.0))
        assert os.path.getsize(path) == 32
        private = lib.from_file(path, shared=False, size=3, dtype=lib.float64)
        assert private.tolist() == [0, 1, 2]
        private.fill_(7)
        assert lib.from_file(path, size=4, dtype=lib.float64).tolist() == [0, 1, 2, 3]
        with pytest.raises(RuntimeError):
            lib.from_file(path, size=5, dtype=lib.float64)
        del made, private
        os.remove(path)
    for mine, theirs in (both(lambda lib: lib.from_file(path, size=1)),):
        assert isinstance(mine, (RuntimeError, OSError)) and isinstance(theirs, RuntimeError)
    nt.from_file(path, shared=True, size=2).is_shared()
