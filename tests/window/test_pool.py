"""Pooling, resampling, sampling, windows as columns: every form beside PyTorch's, with first and second gradients."""

from __future__ import annotations

import warnings
from typing import Any

import narthex as nt
import pytest
import torch

from tests.ops.build import to_ours

F, OURS = torch.nn.functional, nt.nn.functional


def flat(x: Any) -> list[Any]:
    return list(x) if isinstance(x, (tuple, list)) else [x]


def compare(name: str, shape: tuple[int, ...], args: tuple, kwargs: dict[str, Any], dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x = torch.randn(shape, dtype=dtype, requires_grad=True)
    mine = to_ours(x.detach().clone()).requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = flat(getattr(F, name)(x, *args, **kwargs))
        got = flat(getattr(OURS, name)(mine, *args, **kwargs))
    tolerance = {"rtol": 1e-5, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 1e-10, "atol": 1e-10}
    for ours, theirs in zip(got, wanted, strict=True):
        torch.testing.assert_close(torch.from_dlpack(ours.detach()), theirs.detach(), equal_nan=True, **tolerance)
    g = torch.randn_like(wanted[0])
    (theirs,) = torch.autograd.grad(wanted[0], x, g.requires_grad_(), create_graph=True)
    our_g = to_ours(g.detach().clone()).requires_grad_()
    (ours,) = nt.autograd.grad(got[0], mine, our_g, create_graph=True)
    torch.testing.assert_close(torch.from_dlpack(ours.detach()), theirs.detach(), equal_nan=True, **tolerance)
    if theirs.requires_grad:
        (theirs,) = torch.autograd.grad(theirs.sum(), g)
        (ours,) = nt.autograd.grad(ours.sum(), our_g)
        torch.testing.assert_close(torch.from_dlpack(ours), theirs, equal_nan=True, **tolerance)


POOLS = [
    ("max_pool1d", (2, 3, 11), (3, 2, 1), {"return_indices": True}),
    ("max_pool2d", (2, 3, 9, 8), (3, 2, 1), {}),
    ("max_pool2d", (3, 9, 8), ((2, 3),), {"dilation": 2, "ceil_mode": True, "return_indices": True}),
    ("max_pool3d", (1, 2, 6, 5, 7), (2, 2, 1), {"return_indices": True}),
    ("avg_pool1d", (2, 3, 11), (3, 2, 1), {"ceil_mode": True, "count_include_pad": False}),
    ("avg_pool2d", (2, 3, 9, 8), (3, 2, 1), {"ceil_mode": True}),
    ("avg_pool2d", (3, 9, 8), ((3, 2), None), {"divisor_override": 5}),
    ("avg_pool3d", (1, 2, 6, 5, 7), (3, 2, 1), {"count_include_pad": False}),
    ("adaptive_avg_pool1d", (2, 3, 11), (4,), {}),
    ("adaptive_avg_pool2d", (2, 3, 9, 8), ((None, 3),), {}),
    ("adaptive_avg_pool2d", (2, 3, 9, 8), (1,), {}),
    ("adaptive_avg_pool3d", (2, 5, 6, 7), ((3, 2, 5),), {}),
    ("adaptive_max_pool1d", (2, 3, 11), (4,), {"return_indices": True}),
    ("adaptive_max_pool2d", (2, 3, 9, 8), ((4, None),), {"return_indices": True}),
    ("adaptive_max_pool3d", (1, 2, 5, 6, 7), (2,), {}),
    ("lp_pool1d", (2, 3, 11), (3, 3, 2), {}),
    ("lp_pool2d", (2, 3, 9, 8), (2, (3, 2)), {"ceil_mode": True}),
    ("lp_pool3d", (1, 2, 6, 5, 7), (3, 2), {}),
    ("unfold", (2, 3, 7, 8), ((2, 3),), {"dilation": 2, "padding": 1, "stride": (2, 1)}),
    ("fold", (2, 12, 20), ((5, 6), 2), {}),
    ("channel_shuffle", (2, 6, 4, 3), (3,), {}),
    ("pixel_unshuffle", (2, 3, 4, 6), (2,), {}),
    ("pad", (2, 3, 5, 4), ((1, 2, 3, 0), "reflect"), {}),
    ("pad", (2, 3, 5, 4), ((1, 2, 3, 0), "replicate"), {}),
    ("pad", (2, 3, 5, 4, 3), ((1, 2, 3, 0, 2, 1), "circular"), {}),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name, shape, args, kwargs", POOLS)
def test_pool(name: str, shape: tuple[int, ...], args: tuple, kwargs: dict[str, Any], dtype: torch.dtype) -> None:
    compare(name, shape, args, kwargs, dtype)


MODES = [("nearest", (1, 2, 3)), ("nearest-exact", (1, 2, 3)), ("area", (1, 2, 3)), ("linear", (1,)),
         ("bilinear", (2,)), ("trilinear", (3,)), ("bicubic", (2,))]  # fmt: skip
ASKED = [{"scale_factor": 2}, {"scale_factor": 1.7}, {"scale_factor": 0.6, "recompute_scale_factor": True},
         {"scale_factor": 0.6}, {"size": 9}, {"size": 3}, {"size": 7, "align_corners": True}]  # fmt: skip


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("mode, rank", [(mode, rank) for mode, ranks in MODES for rank in ranks])
def test_interpolate(mode: str, rank: int, asked: dict[str, Any]) -> None:
    if "align_corners" in asked and mode in ("nearest", "nearest-exact", "area"):
        with pytest.raises(ValueError, match="align_corners option can only be set"):
            OURS.interpolate(nt.zeros(2, 3, *(7, 6, 5)[:rank]), mode=mode, **asked)
        return
    for dtype in (torch.float32, torch.float64):
        compare("interpolate", (2, 3, *(7, 6, 5)[:rank]), (), {"mode": mode, **asked}, dtype)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "lanczos"])
@pytest.mark.parametrize("asked", [{"size": (3, 4)}, {"size": (12, 17)}, {"scale_factor": 0.4, "align_corners": True}])
def test_antialias(mode: str, asked: dict[str, Any]) -> None:
    if mode == "lanczos":  # has no aligned corners
        asked = {key: value for key, value in asked.items() if key != "align_corners"}
    for dtype in (torch.float32, torch.float64):
        compare("interpolate", (2, 3, 9, 11), (), {"mode": mode, "antialias": True, **asked}, dtype)


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grid_sample(mode: str, padding: str, align: bool, rank: int) -> None:
    if rank == 3 and mode == "bicubic":
        with pytest.raises(RuntimeError, match="bicubic interpolation only supports 4D input"):
            OURS.grid_sample(nt.zeros(1, 1, 2, 2, 2), nt.zeros(1, 2, 2, 2, 3), mode, padding, align)
        return
    torch.manual_seed(1)
    for dtype in (torch.float32, torch.float64):
        x = torch.randn((2, 3, 5, 6, 4)[: rank + 2], dtype=dtype, requires_grad=True)
        grid = (torch.randn((2, *(4, 3, 2)[:rank], rank), dtype=dtype) * 1.2).requires_grad_()
        ours = [to_ours(t.detach().clone()).requires_grad_() for t in (x, grid)]
        wanted, got = F.grid_sample(x, grid, mode, padding, align), OURS.grid_sample(*ours, mode, padding, align)
        g = torch.randn_like(wanted)
        found = nt.autograd.grad(got, ours, to_ours(g))
        for mine, other in [(got, wanted), *zip(found, torch.autograd.grad(wanted, (x, grid), g))]:
            torch.testing.assert_close(torch.from_dlpack(mine.detach()), other.detach(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("size", [(2, 3, 4, 5), (2, 1, 3, 4, 2)])
def test_affine_grid(size: tuple[int, ...], align: bool) -> None:
    n = len(size) - 2
    theta = torch.randn(2, n, n + 1, requires_grad=True)
    ours = to_ours(theta.detach().clone()).requires_grad_()
    wanted, got = F.affine_grid(theta, list(size), align), OURS.affine_grid(ours, list(size), align)
    g = torch.randn_like(wanted)
    wanted.backward(g)
    got.backward(to_ours(g))
    torch.testing.assert_close(torch.from_dlpack(got.detach()), wanted.detach())
    torch.testing.assert_close(torch.from_dlpack(ours.grad), theta.grad)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_unpool(rank: int) -> None:
    """What max_pool took goes back to its place."""
    x = torch.randn((2, 3, 8, 6, 4)[: rank + 2])
    pooled = getattr(F, f"max_pool{rank}d")(x, 2, return_indices=True)
    wanted = getattr(F, f"max_unpool{rank}d")(*pooled, 2)
    layer = getattr(nt.nn, f"MaxUnpool{rank}d")(2)
    got = layer(*(to_ours(part) for part in pooled))
    assert torch.equal(torch.from_dlpack(got), wanted)
    with pytest.raises(RuntimeError, match="invalid max index"):
        layer(to_ours(pooled[0]), to_ours(pooled[1] + 1000))


def test_unpool_keeps_the_last() -> None:
    """Of numbers that are sent to one place."""
    x, at = torch.arange(1.0, 5).view(1, 1, 2, 2), torch.tensor([[[[3, 3], [5, 3]]]])
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # of two, whichever comes last
    wanted, got = F.max_unpool2d(x, at, 2), OURS.max_unpool2d(to_ours(x), to_ours(at), 2)
    torch.set_num_threads(threads)
    assert torch.equal(torch.from_dlpack(got), wanted)


@pytest.mark.parametrize("rank", [2, 3])
def test_fractional(rank: int) -> None:
    """The same samples from the same seed."""
    x = torch.randn((2, 3, 9, 8, 7)[: rank + 2])
    torch.manual_seed(3)
    nt.manual_seed(3)
    wanted = getattr(torch.nn, f"FractionalMaxPool{rank}d")(2, output_ratio=0.5, return_indices=True)(x)
    got = getattr(nt.nn, f"FractionalMaxPool{rank}d")(2, output_ratio=0.5, return_indices=True)(to_ours(x))
    for mine, other in zip(got, wanted, strict=True):
        assert torch.equal(torch.from_dlpack(mine), other)


@pytest.mark.parametrize("name", ["max_pool2d", "avg_pool2d", "interpolate"])
def test_channels_last(name: str) -> None:
    x = torch.randn(2, 4, 6, 8).to(memory_format=torch.channels_last)
    args = {"scale_factor": 2} if name == "interpolate" else {"kernel_size": 2}
    wanted, got = getattr(F, name)(x, **args), getattr(OURS, name)(to_ours(x), **args)
    assert tuple(got.stride()) == tuple(wanted.stride())
    assert torch.equal(torch.from_dlpack(got), wanted)


def test_unfold_is_a_view() -> None:
    x = nt.arange(10.0)
    windows = x.unfold(0, 3, 3)
    windows[1] = 7
    assert x.tolist() == [0, 1, 2, 7, 7, 7, 6, 7, 8, 9] and windows.data_ptr() == x.data_ptr()


LAYERS = [
    ("MaxPool2d", (3, 2), {"padding": 1}), ("AvgPool1d", (2,), {}), ("AvgPool2d", (3,), {}), ("LPPool2d", (2, 3), {}),
    ("AdaptiveAvgPool2d", ((2, None),), {}), ("AdaptiveMaxPool1d", (2,), {}), ("MaxUnpool2d", (2,), {}),
    ("Upsample", (), {"scale_factor": 2, "mode": "bilinear"}), ("UpsamplingNearest2d", (), {"scale_factor": 2}),
    ("Unfold", (3,), {}), ("Fold", ((4, 5), 2), {}), ("ChannelShuffle", (2,), {}),
]  # fmt: skip


@pytest.mark.parametrize("name, args, kwargs", LAYERS)
def test_layers_show_themselves(name: str, args: tuple, kwargs: dict[str, Any]) -> None:
    assert repr(getattr(nt.nn, name)(*args, **kwargs)) == repr(getattr(torch.nn, name)(*args, **kwargs))


WRONG = [
    ("max_pool2d", (1, 1, 4, 4), (2, 1, 2)), ("max_pool2d", (4, 4), (2,)), ("avg_pool2d", (1, 1, 2, 2), (3,)),
    ("max_pool2d", (1, 1, 4, 4), (2, 0)), ("unfold", (1, 1, 2, 2), (3,)), ("fold", (1, 4, 5), ((4, 4), 2)),
]  # fmt: skip


@pytest.mark.parametrize("name, shape, args", WRONG)
def test_errors(name: str, shape: tuple[int, ...], args: tuple) -> None:
    with pytest.raises(RuntimeError) as theirs:
        getattr(F, name)(torch.zeros(shape), *args)
    with pytest.raises(RuntimeError) as ours:
        getattr(OURS, name)(nt.zeros(shape), *args)
    said = str(theirs.value).split(":", 1)[-1].strip()[:24]
    assert said in str(ours.value), (str(theirs.value), str(ours.value))


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize("pad", [(4, 3), (0, 5), (2, -3), (-1, -2)], ids=str)
def test_padding_of_long_rows(mode: str, pad: tuple[int, int]) -> None:
    """Of these the edges alone go by an index."""
    x = torch.randn(2, 3, 5000, requires_grad=True)
    mine = to_ours(x.detach().clone()).requires_grad_()
    want, got = F.pad(x, pad, mode), OURS.pad(mine, pad, mode)
    assert torch.equal(torch.from_dlpack(got.detach()), want.detach())
    want.square().sum().backward()
    (got * got).sum().backward()
    torch.testing.assert_close(torch.from_dlpack(mine.grad), x.grad)


MANY_CHANNELS_LAST = {
    "max_pool2d": (3, 2, 1),
    "avg_pool2d": (3, 2, 1),
    "adaptive_max_pool2d": (3,),
    "adaptive_avg_pool2d": (3,),
    "interpolate": ((11, 5), None, "bilinear"),
}


@pytest.mark.parametrize("name", MANY_CHANNELS_LAST)
def test_many_channels_last(name: str) -> None:
    """With more channels than are gone through together."""
    x = torch.randn(2, 300, 7, 9).contiguous(memory_format=torch.channels_last)
    want = getattr(F, name)(x, *MANY_CHANNELS_LAST[name])
    got = getattr(OURS, name)(to_ours(x), *MANY_CHANNELS_LAST[name])
    assert got.stride() == want.stride()
    torch.testing.assert_close(torch.from_dlpack(got), want)
