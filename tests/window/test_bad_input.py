"""Bad windows and sizes, over the families: PyTorch's exception type, and its words or ours where the table says so.
Sizes that no number holds are refused before anything is computed; an index out of range is found on any thread.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import narthex as nt
import pytest
import torch

Call = Callable[[Any], Any]
FAR, FARTHER = 1 << 40, 1 << 62


def image(t: Any, n: int) -> Any:
    return t.ones([2, 3, 8, 9, 7][: n + 2])


def calls_of_pools(n: int) -> dict[str, Call]:
    found: dict[str, Call] = {}
    for kind in ("max", "avg"):
        name = f"{kind}_pool{n}d"
        for label, args in {
            "kernel -1": (-1,), "stride -1": (2, -1), "padding -1": (2, 1, -1), "much padding": (2, 1, 2),
            "three kernels too many": ([2] * (n + 3),), "no kernel": ([],), "stride 0": (2, 0),
        }.items():  # fmt: skip
            found[f"{name}, {label}"] = lambda t, name=name, args=args: getattr(t.nn.functional, name)(
                image(t, n), *args
            )
    if n > 1:
        for label, args in {
            "far": (2, FARTHER),
            "far kernel": (FARTHER,),
            "far padding": (FARTHER + 2, 1, 1 << 61),
        }.items():
            found[f"avg_pool, {label}"] = lambda t, args=args: getattr(t.nn.functional, f"avg_pool{n}d")(
                image(t, n), *args
            )
    found["max_pool, large kernel"] = lambda t: getattr(t.nn.functional, f"max_pool{n}d")(image(t, n), 99)
    found["max_pool, dilation 0"] = lambda t: getattr(t.nn.functional, f"max_pool{n}d")(image(t, n), 2, 1, 0, 0)
    found["max_pool, an empty image"] = lambda t: getattr(t.nn.functional, f"max_pool{n}d")(image(t, n)[..., :0], 2)
    for kind in ("avg", "max"):
        pool = f"adaptive_{kind}_pool{n}d"
        found[f"{pool}, -1"] = lambda t, pool=pool: getattr(t.nn.functional, pool)(image(t, n), -1)
        found[f"{pool}, no image"] = lambda t, pool=pool: getattr(t.nn.functional, pool)(t.ones(3), [2] * n)
    return found


def calls_of_convolutions(n: int) -> dict[str, Call]:
    def convolve(t: Any, name: str = f"conv{n}d", weight: tuple[int, ...] = (4, 3), k: int = 3, **options: Any) -> Any:
        return getattr(t.nn.functional, name)(image(t, n), t.ones([*weight] + [k] * n), **options)

    options: dict[str, dict[str, Any]] = {
        "stride 0": {"stride": 0}, "stride -1": {"stride": -1}, "padding -1": {"padding": -1},
        "groups 0": {"groups": 0}, "groups 2": {"groups": 2}, "groups 5": {"groups": 5},
        "strides": {"stride": [1] * (n + 1)},
        "paddings": {"padding": [1] * (n + 1)}, "a padding of another name": {"padding": "big"},
        "same with strides": {"padding": "same", "stride": 2}, "large dilation": {"dilation": 9},
        "padding that no number holds": {"padding": FARTHER + 5}, "far dilation": {"dilation": 1 << 61},
    }  # fmt: skip
    found: dict[str, Call] = {f"conv, {label}": lambda t, o=o: convolve(t, **o) for label, o in options.items()}
    found["conv, large kernel"] = lambda t: convolve(t, k=11)
    found["conv, channels"] = lambda t: convolve(t, weight=(4, 2))
    found["conv, bias"] = lambda t: convolve(t, bias=t.ones(5))
    found["conv, dimensions"] = lambda t: getattr(t.nn.functional, f"conv{n}d")(image(t, n), t.ones([3] * (n + 1)))
    for label, more in {
        "stride 0": {"stride": 0},
        "output_padding -1": {"output_padding": -1},
        "groups 2": {"groups": 2},
    }.items():
        found[f"conv_transpose, {label}"] = lambda t, more=more: convolve(t, f"conv_transpose{n}d", (3, 4), **more)
    return found


def calls_of_columns() -> dict[str, Call]:
    found: dict[str, Call] = {}
    for label, args in {
        "kernel 0": (0,), "dilation -1": (2, -1), "padding -1": (2, 1, -1), "stride 0": (2, 1, 0, 0), "large": (99,),
        "three kernels": ([2, 2, 2],), "large dilation": (2, 9),
    }.items():  # fmt: skip
        found[f"unfold, {label}"] = lambda t, args=args: t.nn.functional.unfold(image(t, 2), *args)
        found[f"fold, {label}"] = lambda t, args=args: t.nn.functional.fold(t.ones(2, 12, 56), (8, 9), *args)
    found["fold, three sizes"] = lambda t: t.nn.functional.fold(t.ones(2, 12, 56), (8, 9, 1), 2)
    return found


def calls_of_sizes() -> dict[str, Call]:
    wide = lambda t, n: t.ones(1).expand(n)  # noqa: E731
    return {
        "pixel_shuffle by 2^40": lambda t: t.nn.functional.pixel_shuffle(image(t, 2), FAR),
        "pixel_shuffle by 0": lambda t: t.nn.functional.pixel_shuffle(image(t, 2), 0),
        "unfold: step 0": lambda t: t.ones(5).unfold(0, 2, 0),
        "unfold: more than there is": lambda t: t.ones(5).unfold(0, 9, 1),
        "zeros of -1": lambda t: t.zeros(2, -1),
        "zeros of 2^80": lambda t: t.zeros(FAR, FAR),
        "view as 2^80": lambda t: t.ones(6).view(FAR, FAR),
        "expand to -3": lambda t: t.ones(1).expand(-3),
        "arange by 0": lambda t: t.arange(0, 1, 0),
        "arange backwards": lambda t: t.arange(0, 1, -1),
        "arange to infinity": lambda t: t.arange(float("inf")),
        "eye of -1": lambda t: t.eye(-1),
        "tril_indices of -1": lambda t: t.tril_indices(-1, 2),
        "tril_indices of 2^80": lambda t: t.tril_indices(FAR, FAR),
        "cat of 2^63": lambda t: t.cat([wide(t, FARTHER)] * 2),
        "diag of 2^40": lambda t: t.diag(wide(t, FAR)),
        "fft of none": lambda t: t.fft.fft(t.ones(3), 0),
        "topk of more": lambda t: t.ones(3).topk(9),
        "split by 0": lambda t: t.ones(3).split(0),
        "chunks of 0": lambda t: t.ones(3).chunk(0),
        "narrow beyond": lambda t: t.ones(3).narrow(0, 2, 9),
        "narrow from a fraction": lambda t: t.ones(3).narrow(0, t.tensor(1.0), 1),
        "masked_fill of integers by i": lambda t: t.ones(2, dtype=t.int64).masked_fill(t.tensor(True), t.tensor(1j)),
        "binomial of whole counts": lambda t: t.binomial(t.ones(3, dtype=t.int64), t.ones(3)),
        "binomial of two dtypes, other words": lambda t: t.binomial(t.ones(3), t.ones(3, dtype=t.float64)),
        "a pool's gradient of another dtype, other words": lambda t: t.ops.aten.avg_pool2d_backward(
            t.ones(1, 1, 2, 2), t.ones(1, 1, 4, 4, dtype=t.float64), [2, 2], [2, 2], [0, 0], False, True, None
        ),
        "masked_fill of bytes by 1e9": lambda t: t.ones(2, dtype=t.uint8).masked_fill(t.tensor(True), 10**9),
    }


def calls_of_places() -> dict[str, Call]:
    """What would be read or written behind a tensor."""
    ones = [True] * 3
    aten = lambda t: t.ops.aten  # noqa: E731

    def step(t: Any, steps: int, **more: Any) -> Any:
        lists = [[t.ones(2)] for _ in range(4)]
        numbers = dict(lr=0.1, beta1=0.9, beta2=0.9, weight_decay=0.0, eps=1e-8, amsgrad=False, maximize=False)
        return t._fused_adam_(*lists, [], [t.ones(steps)], **numbers, **more)

    def nll(t: Any, target: int, weight: Any = None) -> Any:
        return aten(t).nll_loss_forward(t.rand(4), t.zeros(target, dtype=t.int64), weight, 1, -100)

    return {
        "fractional_max_pool2d, one window size": lambda t: aten(t).fractional_max_pool2d(
            image(t, 2), [2], [3, 2], t.rand(2, 3, 2)
        ),
        "fractional_max_pool2d, one output size": lambda t: aten(t).fractional_max_pool2d(
            image(t, 2), [2, 2], [3], t.rand(2, 3, 2)
        ),
        "scatter of nothing, other words": lambda t: t.zeros(3).scatter(0, t.tensor(1), t.zeros(0)),
        "scatter of a number, other words": lambda t: t.zeros(5).scatter(0, t.tensor([1, 2]), t.tensor(1.0)),
        "scatter_reduce of nothing, other words": lambda t: t.zeros(3).scatter_reduce(
            0, t.tensor(1), t.zeros(0), "sum"
        ),
        "nll_loss of a row without a target": lambda t: nll(t, 0),
        "nll_loss of a row with four targets": lambda t: nll(t, 4),
        "nll_loss with weights in a matrix": lambda t: aten(t).nll_loss_forward(
            t.rand(3, 4), t.zeros(3, dtype=t.int64), t.ones(1, 4), 1, -100
        ),
        "the gradient of a weight that is not there, other words": lambda t: aten(t).native_layer_norm_backward(
            t.rand(2, 3), t.rand(2, 3), [3], t.rand(2, 1), t.rand(2, 1), None, None, ones
        ),
        "a mask of one": lambda t: aten(t).convolution_backward(
            t.rand(1, 1, 2), t.rand(1, 1, 2), t.rand(1, 1, 1), None, [1], [0], [1], False, [0], 1, [True]
        ),
        "padding by 2^63 twice": lambda t: t.nn.functional.pad(t.ones(5), (2**63 - 1, 2**63 - 1)),
        "padding by -2^63 twice, other words": lambda t: t.nn.functional.pad(t.ones(5), (-(2**63), -(2**63))),
        "padding by -2^63 and 2^63, other words": lambda t: t.nn.functional.pad(t.ones(5), (-(2**63), 2**63 - 1)),
        "padding by more than there is": lambda t: t.nn.functional.pad(t.ones(5), (-6, 7)),
        "random_ between neighbours of float16": lambda t: t.zeros(3, dtype=t.float16).random_(2050, 2052),
        "random_ beyond float16": lambda t: t.zeros(3, dtype=t.float16).random_(0, 100_000),
        "random_ from behind all": lambda t: t.zeros(3).random_(2**24 + 1, None),
        "half a transform of nothing, other words": lambda t: aten(t)._fft_r2c(t.rand(3, 0), [1], 0, True),
        "a step without its number": lambda t: step(t, 0),
        "a step with two numbers": lambda t: step(t, 2),
        "a short sorter": lambda t: t.searchsorted(t.arange(5.0), t.ones(2), sorter=t.arange(3)),
        "a sorter of int32": lambda t: t.searchsorted(t.arange(5.0), t.ones(2), sorter=t.arange(5, dtype=t.int32)),
        "columns of a far image, other words": lambda t: aten(t).col2im(
            t.ones(1, 1, 9), [2**63 - 1, 3], [1, 1], [1, 1], [0, 0], [1, 1]
        ),
        "columns of a far kernel, other words": lambda t: aten(t).im2col(
            t.ones(1, 3, 3, 3), [2**31 - 1] * 2, [1, 1], [2**31 - 1] * 2, [1, 1]
        ),
    }


def calls_of_resampling() -> dict[str, Call]:
    """A derivative's lists of sizes may have any length."""
    found: dict[str, Call] = {}
    for name, more in {"nearest": (), "bilinear": (False,), "bicubic": (True,)}.items():
        for label, sizes in {
            "a short output": ([8], [2, 3, 4, 4]), "a long output": ([8, 8, 8], [2, 3, 4, 4]),
            "a short input": ([8, 8], [2]), "an input of three": ([8, 8], [2, 3, 4]), "no input": ([8, 8], []),
            "a long input": ([8, 8], [2, 3, 4, 4, 4]), "another output": ([8, 7], [2, 3, 4, 4]),
        }.items():  # fmt: skip
            found[f"{name}, {label}"] = lambda t, name=name, sizes=sizes, more=more: getattr(
                t.ops.aten, f"upsample_{name}2d_backward"
            )(t.ones(2, 3, 8, 8), *sizes, *more)
    return found


def calls() -> dict[str, Call]:
    found = calls_of_columns() | calls_of_sizes() | calls_of_places() | calls_of_resampling()
    for n in (1, 2, 3):
        made = calls_of_pools(n) | calls_of_convolutions(n)
        found |= {f"{n}d: {name}": call for name, call in made.items()}
    return found


CALLS = calls()


def told(call: Call, t: Any) -> tuple[type, str]:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        call(t)
    return type(caught.value), str(caught.value).split("\n")[0]


def plain(text: str) -> str:
    return re.sub(r"^(aten::)?[\w.]+(\(\))?: ", "", text).rstrip(".")


# What is refused is the same, in other words.
OTHER_WORDS = (
    "tril_indices of 2^80",  # PyTorch asks the machine for the memory
    "cat of 2^63",  # PyTorch's sum wraps
    "avg_pool3d, three kernels too many", "avg_pool3d, no kernel",  # it has words of its own for this pool
    "other words",
    "another output",  # it names the first place that differs
)  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_bad_input(name: str) -> None:
    (mine, text), (theirs, wanted) = told(CALLS[name], nt), told(CALLS[name], torch)
    assert issubclass(mine, theirs)
    assert plain(wanted) in text or any(part in name for part in OTHER_WORDS), f"{text}\n{wanted}"


def test_far_numbers_that_mean_something() -> None:
    """A stride over all of the image, a dilation of one tap, no elements in dimensions that no memory has."""
    for t in (nt, torch):
        x, w, one = image(t, 2), t.ones(4, 3, 3, 3), t.ones(4, 3, 1, 1)
        assert t.nn.functional.conv2d(x, w, stride=FARTHER).shape == (2, 4, 1, 1)
        assert (
            t.nn.functional.conv2d(x, one, dilation=FAR, stride=FARTHER).tolist() == t.full((2, 4, 1, 1), 3.0).tolist()
        )
        assert t.zeros(FARTHER, 0, FARTHER).numel() == 0
    assert nt.tril_indices(4, 5, -1).tolist() == torch.tril_indices(4, 5, -1).tolist()
    assert nt.triu_indices(4, 5, 2).tolist() == torch.triu_indices(4, 5, 2).tolist()


def same(mine: Any, theirs: Any) -> bool:
    """Lists of tensors, or of numbers, or one."""
    if isinstance(mine, nt.Tensor):
        flat = pytest.approx(theirs.flatten().tolist(), rel=1e-5, abs=1e-6)
        return bool(mine.shape == theirs.shape and mine.flatten().tolist() == flat)
    return mine == theirs if isinstance(mine, int) else len(mine) == len(theirs) and all(map(same, mine, theirs))


def counted(t: Any, *size: int) -> Any:
    return t.arange(math.prod(size), dtype=t.float32).reshape(size)


FAR_AND_RIGHT: dict[str, Call] = {
    "batch_norm by a matrix": lambda t: t.nn.functional.batch_norm(
        counted(t, 5, 3), None, None, counted(t, 3, 1), counted(t, 1, 3), True
    ),
    "batch_norm by a number": lambda t: t.nn.functional.batch_norm(
        counted(t, 5, 1), None, None, t.tensor(2.0), t.tensor(3.0), True
    ),
    "nll_loss of images by a matrix": lambda t: t.nn.functional.nll_loss(
        counted(t, 1, 4, 2, 1), t.tensor([[[3], [1]]]), weight=counted(t, 2, 2)
    ),
    "lu_unpack without its pivots": lambda t: t.lu_unpack(
        counted(t, 2, 2).expand(4, 2, 2), t.tensor(7, dtype=t.int32), unpack_pivots=False
    )[1:],
    "as_strided_scatter behind its part": lambda t: t.as_strided_scatter(counted(t, 100)[:2], t.ones(50), [50], [1]),
    "corners of a far matrix": lambda t: [
        t.tril_indices(3, 2**31 - 1),
        t.tril_indices(2**31 - 1, 3, -(2**31) + 3),
        t.triu_indices(2**31 - 1, 3),
        t.triu_indices(3, 2**31 - 1, 2**31 - 3),
    ],
    "eye of no rows": lambda t: t.eye(0, 2**63 - 1).shape,
    "a far diagonal": lambda t: [t.tril(t.ones(2, 3), 2**63 - 1), t.triu(t.ones(2, 3), -(2**63))],
    "far steps of windows": lambda t: t.ops.aten.im2col(
        counted(t, 1, 1, 3, 3), [1, 1], [1, 1], [0, 0], [FAR, 2**63 - 1]
    ),
    "lines of a small scale": lambda t: t.ops.aten.upsample_linear1d(t.ones(1, 1, 3).double(), [3], False, 1e-300),
    "cubes of a small scale": lambda t: t.ops.aten.upsample_bicubic2d(
        t.ones(1, 1, 3, 3).double(), [3, 3], False, 1e-300, 1e-300
    ),
    "means over -1": lambda t: t.ops.aten.avg_pool2d(t.full((1, 1, 2, 2), 5), 1, divisor_override=-1),
}


@pytest.mark.parametrize("name", FAR_AND_RIGHT)
def test_far_numbers_have_pytorch_s_results(name: str) -> None:
    assert same(FAR_AND_RIGHT[name](nt), FAR_AND_RIGHT[name](torch))


def test_what_pytorch_does_not_end_or_check() -> None:
    """Its samplers go on for ever, it reads where samples and pivots send it, and stops the process."""
    nan = float("nan")
    assert nt._standard_gamma(nt.tensor([nan, -1.0])).isnan().all()
    assert nt._standard_gamma_grad(nt.tensor([1e-3, 1e-310]).double(), nt.tensor([5e-324, 1.0]).double()).shape == (2,)
    assert nt.ops.aten.fractional_max_pool2d(image(nt, 2), [2, 2], [3, 2], nt.full((2, 3, 2), 2.0**25))[0].max() == 1
    assert nt.ops.aten.fractional_max_pool2d(image(nt, 2), [2, 2], [3, 2], nt.full((2, 3, 2), nan))[1].max() < 72
    assert nt.slice_scatter(nt.ones(2, 3), nt.zeros(1, 3), 0, 0, None, 2**63 - 1).tolist() == [[0.0] * 3, [1.0] * 3]
    least = nt.full((1, 1, 1, 1), -(2**63))
    assert nt.ops.aten.avg_pool2d(least, 1, divisor_override=-1).tolist() == least.tolist()
    for pivots in ([1, 3], [0, 1], [1, -1], [-3, -1], [-(2**31), 1]):
        with pytest.raises(RuntimeError, match="Pivots given to ldl_solve"):
            nt.linalg.ldl_solve(nt.eye(2), nt.tensor(pivots, dtype=nt.int32), nt.ones(2, 1))


def test_what_is_written_into_takes_no_dtype() -> None:
    """The scatters of views have the dtype of what they change."""
    for t in (nt, torch):
        x, part = t.arange(9).view(3, 3), t.tensor([0.5, 1.5, 2.5], dtype=t.float64)
        made = [t.select_scatter(x, part, 0, 1), t.slice_scatter(x, part[None], 0, 0, 1), t.diagonal_scatter(x, part)]
        made.append(t.as_strided_scatter(x, part, [3], [1]))
        assert [one.dtype for one in made] == [t.int64] * 4
        assert made[0].tolist() == [[0, 1, 2], [0, 1, 2], [6, 7, 8]]


# ---- indices out of range -------------------------------------------------------------------------------------------
N = 40_000  # places that several threads share


def one_bad(t: Any, bad: int) -> Any:
    at = t.arange(N) % 7
    at[N - 3] = bad
    return at


READERS: dict[str, Callable[[Any, Any], Any]] = {
    "gather": lambda t, at: t.ones(7).gather(0, at),
    "index_select": lambda t, at: t.ones(7, 2).index_select(0, at),
    "take": lambda t, at: t.ones(7).take(at),
    "index": lambda t, at: t.ones(7, 2)[at],
    "embedding": lambda t, at: t.nn.functional.embedding(at, t.ones(7, 2)),
    "embedding_bag": lambda t, at: t.nn.functional.embedding_bag(at, t.ones(7, 2), t.arange(0, N, 100)),
    "nll_loss": lambda t, at: t.nn.functional.nll_loss(t.ones(N, 7), at),
    "cross_entropy": lambda t, at: t.nn.functional.cross_entropy(t.ones(N, 7), at),
    "multi_margin_loss": lambda t, at: t.nn.functional.multi_margin_loss(t.ones(N, 7), at),
    "one_hot": lambda t, at: t.nn.functional.one_hot(at, 7),
}
WRITERS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "scatter_": lambda t, x, at: x.scatter_(0, at, t.ones(N)),
    "scatter_ of a number": lambda t, x, at: x.scatter_(0, at, 1.0),
    "scatter_add_": lambda t, x, at: x.scatter_add_(0, at, t.ones(N)),
    "scatter_reduce_": lambda t, x, at: x.scatter_reduce_(0, at, t.ones(N), "amax"),
    "index_add_": lambda t, x, at: x.index_add_(0, at, t.ones(N)),
    "index_copy_": lambda t, x, at: x.index_copy_(0, at, t.ones(N)),
    "index_fill_": lambda t, x, at: x.index_fill_(0, at, 1.0),
    "index_put_": lambda t, x, at: x.index_put_((at,), t.ones(N)),
    "index_put_ adding": lambda t, x, at: x.index_put_((at,), t.ones(N), accumulate=True),
    "put_": lambda t, x, at: x.put_(at, t.ones(N)),
    "setitem": lambda t, x, at: x.__setitem__(at, 1.0),
}


@pytest.fixture(params=[1, 2, 7])
def threads(request: pytest.FixtureRequest) -> Any:
    before = nt.get_num_threads()
    nt.set_num_threads(request.param)
    yield request.param
    nt.set_num_threads(before)


# An index out of range is an IndexError in one of the two and a RuntimeError in the other.
OTHER_TYPES = ("embedding_bag", "index_copy_", "index_fill_")


@pytest.mark.parametrize("bad", [7, -8, FARTHER])
@pytest.mark.parametrize("name", READERS)
def test_an_index_out_of_range_is_found(name: str, bad: int, threads: int) -> None:
    if name == "multi_margin_loss" and bad == -8:
        pytest.skip("classes below 0 are refused as others")
    (mine, _), (theirs, _) = (
        told(lambda t: READERS[name](t, one_bad(t, bad)), nt),
        told(lambda t: READERS[name](t, one_bad(t, bad)), torch),
    )
    assert issubclass(mine, theirs) or (name in OTHER_TYPES and {mine, theirs} == {IndexError, RuntimeError})


@pytest.mark.parametrize("bad", [7, -8, FARTHER])
@pytest.mark.parametrize("name", WRITERS)
def test_nothing_is_written_before_an_index_out_of_range_is_found(name: str, bad: int, threads: int) -> None:
    x = nt.zeros(7)
    mine, _ = told(lambda t: WRITERS[name](t, x, one_bad(t, bad)), nt)
    theirs, _ = told(lambda t: WRITERS[name](t, t.zeros(7), one_bad(t, bad)), torch)
    assert issubclass(mine, theirs) or (name in OTHER_TYPES and {mine, theirs} == {IndexError, RuntimeError})
    assert x.tolist() == [0.0] * 7
