"""The number of threads does not show: every operator gives the same bits for 1, 2, 3 and 7 of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import narthex as nt
import narthex.nn.functional as F
import pytest
import torch
from narthex import _C

from tests.ops.build import arguments, call_ours, flat, parts, to_ours, to_theirs
from tests.ops.test_cases import BEST, GOOD, VALUES, each, kernels, operators

COUNTS = (1, 2, 3, 7)
# At base, other loops, and BLAS where there are no products of our own.
at_both_ends = pytest.mark.parametrize("level", sorted({"base", BEST}))


@pytest.fixture(autouse=True)
def _the_same_afterwards() -> Iterator[None]:
    threads = nt.get_num_threads()
    yield
    nt.set_num_threads(threads)
    _C.set_piece(0)


def bits(value: Any) -> list[torch.Tensor]:
    """Bytes of all tensors. A NaN is one number: its sign, which the standard leaves open, follows the order of
    operands in an instruction and so whether an element was computed alone or in a vector."""
    tensors = [part for part in flat(parts(value)) if isinstance(part, nt.Tensor)]
    sides = [to_theirs(part) for part in tensors]
    sides = [side.masked_fill(side.isnan(), float("nan")) if side.is_floating_point() else side for side in sides]
    return [torch.empty(side.numel(), dtype=side.dtype).copy_(side.reshape(-1)).view(torch.uint8) for side in sides]


def check_same(run: Callable[[], Any]) -> None:
    def of(threads: int) -> list[torch.Tensor]:
        nt.set_num_threads(threads)
        nt.manual_seed(3)
        return bits(run())

    first = of(COUNTS[0])
    for threads in COUNTS[1:]:
        again = of(threads)
        assert len(again) == len(first)
        for one, other in zip(first, again):
            assert torch.equal(one, other), f"{threads} threads: {int((one != other).sum())} bytes differ"


# ---- every case, cut as finely as may be -----------------------------------------------------------------------------
@at_both_ends
@pytest.mark.parametrize(**operators(VALUES))
def test_every_case(given: list[dict[str, Any]], level: str) -> None:
    """A byte is worth a thread here, so that small sizes are split too."""
    _C.set_piece(1)

    def check(case: dict[str, Any]) -> None:
        def run() -> Any:
            args, kwargs = arguments(case)
            twin = to_ours(args)
            result = call_ours(case["op"], twin, {name: to_ours(value) for name, value in kwargs.items()})
            return [*parts(result), *[arg for arg in flat(twin) if isinstance(arg, nt.Tensor)]]

        check_same(run)

    with kernels(level):
        each(given, check)


def test_every_entry_has_a_case_here() -> None:
    assert {case["op"] for case in VALUES} == {case["op"] for case in GOOD if not case.get("meta")}


# ---- sizes that are split ------------------------------------------------------------------------------------
def randn(*size: int, dtype: Any = nt.float32) -> Any:
    return nt.randn(*size).to(dtype)


def index(n: int, *size: int) -> Any:
    return nt.randint(0, n, size)


def gradients(call: Callable[..., Any], *leaves: Any) -> list[Any]:
    for leaf in leaves:
        leaf.requires_grad_()
    result = call(*leaves)
    grads = nt.autograd.grad(result, leaves, nt.randn(tuple(result.shape)).to(result.dtype))
    return [result, *grads]


BIG: dict[str, Callable[[], Any]] = {
    "point": lambda: nt.sin(randn(300_001)) * randn(300_001),
    "point, halves": lambda: randn(300_001, dtype=nt.bfloat16) * randn(300_001, dtype=nt.bfloat16),
    "point, broadcast": lambda: randn(700, 1) + randn(401),
    "point, transposed": lambda: randn(700, 401).t() + randn(401, 700),
    "point, mixed": lambda: randn(300_001) + index(9, 300_001),
    "where": lambda: nt.where(randn(300_001) > 0, randn(300_001), randn(1)),
    "cast": lambda: randn(300_001).to(nt.float64).to(nt.float16),
    "copy, transposed": lambda: randn(2, 700, 401).transpose(1, 2).contiguous(),
    "mm": lambda: randn(700, 300) @ randn(300, 1100),
    "mm, narrow": lambda: randn(3000, 300) @ randn(300, 20),
    "mm, wide": lambda: randn(20, 300) @ randn(300, 3000),
    "mm, transposed": lambda: randn(300, 700).t() @ randn(1100, 300).t(),
    "mm, deep": lambda: randn(65, 5000) @ randn(5000, 129),
    "mm, deep and wide": lambda: randn(40, 5000) @ randn(700, 5000).t(),
    "mm, rows 4 KiB apart": lambda: randn(500, 1024) @ randn(1024, 700),
    "mm, float64": lambda: randn(400, 300, dtype=nt.float64) @ randn(300, 900, dtype=nt.float64),
    "mm, bfloat16": lambda: randn(400, 300, dtype=nt.bfloat16) @ randn(300, 900, dtype=nt.bfloat16),
    "mm, bfloat16, narrow": lambda: randn(900, 300, dtype=nt.bfloat16) @ randn(300, 70, dtype=nt.bfloat16),
    "mm, bfloat16, transposed": lambda: randn(300, 200, dtype=nt.bfloat16).t() @ randn(900, 300, dtype=nt.bfloat16).t(),
    "mm, int64": lambda: index(9, 200, 150) @ index(9, 150, 170),
    "mv": lambda: randn(3000, 1500) @ randn(1500),
    "vm": lambda: randn(1500) @ randn(1500, 3000),
    "mv, transposed": lambda: randn(1500, 3000).t() @ randn(1500),
    "dot": lambda: randn(300_001).dot(randn(300_001)),
    "bmm": lambda: randn(5, 300, 100) @ randn(5, 100, 300),
    "bmm, many": lambda: randn(200, 60, 40) @ randn(200, 40, 50),
    "addmm": lambda: nt.addmm(randn(900), randn(500, 300), randn(300, 900), beta=0.5, alpha=2),
    "linear": lambda: gradients(F.linear, randn(600, 300), randn(500, 300), randn(500)),
    "sum": lambda: randn(1_000_003).sum(),
    "sum, halves": lambda: randn(1_000_003, dtype=nt.float16).sum(),
    "sum, gaps": lambda: randn(1003, 1001)[:, ::2].sum(),
    "sum, middle": lambda: randn(30, 700, 40).sum(1),
    "sum, narrow": lambda: randn(100_000, 3).sum(0),
    "sum, wide": lambda: randn(3000, 700).sum(0),
    "sum, rows": lambda: randn(700, 3000).sum(1),
    "sum, two dimensions": lambda: randn(90, 80, 70, 3).sum((0, 2)),
    "mean": lambda: randn(3, 300_001).mean(1),
    "var": lambda: [randn(500_001).var(), randn(100_000, 5).std(0)],
    "prod": lambda: (1 + randn(300_001) / 1000).prod(),
    "norm": lambda: [randn(500_001).norm(), randn(500_001).norm(3)],
    "amax": lambda: [randn(500_001).amax(), randn(100_000, 5).amin(0), (randn(500_001) > 5).any()],
    "argmax": lambda: [randn(500_001).argmax(), index(9, 100_000, 5).argmax(0)],
    "max": lambda: [*index(9, 100_000, 5).max(0), *index(9, 5, 100_000).min(1)],
    "logsumexp": lambda: randn(3, 300_001).logsumexp(1),
    "cumsum": lambda: [randn(500_001).cumsum(0), randn(1000, 500).cumsum(0)],
    "sort": lambda: [*index(9999, 300_001).sort(), *randn(700, 500).sort(0), *randn(300_001).topk(1000)],
    "sort, stable": lambda: list(index(9, 300_001).sort(stable=True, descending=True)),
    "softmax": lambda: gradients(lambda x: F.softmax(x, 0), randn(400, 700)),
    "log_softmax": lambda: gradients(lambda x: F.log_softmax(x, 1), randn(400, 700)),
    "layer_norm": lambda: gradients(
        lambda x, w, b: F.layer_norm(x, (300,), w, b), randn(900, 300), randn(300), randn(300)
    ),
    "gather": lambda: [randn(700, 500).gather(0, index(700, 900, 400)), randn(500_001).gather(0, index(9, 400_000))],
    "scatter": lambda: randn(500_001).scatter(0, nt.randperm(500_001)[:400_000], randn(400_000)),
    "scatter, twice the same": lambda: randn(9, 500).scatter(0, index(9, 700, 500), randn(700, 500)),
    "scatter_add": lambda: [
        randn(999).scatter_add(0, index(999, 400_000), randn(400_000)),
        randn(300, 700).scatter_add(1, index(700, 300, 900), randn(300, 900)),
        randn(30, 700).scatter_add(0, index(30, 900, 700), randn(900, 700)),
    ],
    "index_select": lambda: [
        randn(700, 300).index_select(0, index(700, 900)),
        randn(300, 700).index_select(1, index(700, 900)),
    ],
    "index_add": lambda: [
        randn(70, 300).index_add(0, index(70, 3000), randn(3000, 300)),
        randn(300, 70).index_add(1, index(70, 3000), randn(300, 3000)),
    ],
    "index": lambda: [
        randn(700, 300)[index(700, 900)],
        randn(700, 300)[:, index(300, 900)],
        randn(500_001)[index(9, 300_001)],
    ],
    "index_put": lambda: [
        randn(70, 300).index_put((index(70, 3000),), randn(3000, 300), accumulate=True),
        randn(70, 300).index_put((index(70, 3000), index(300, 3000)), randn(3000)),
        randn(999).index_put((index(999, 400_000),), randn(400_000), accumulate=True),
    ],
    "masks": lambda: [
        randn(700, 500).masked_fill(randn(500) > 0, 2.0),
        randn(500_001)[randn(500_001) > 0],
        randn(900, 500).nonzero(),
    ],
    "embedding": lambda: gradients(lambda w: F.embedding(index(300, 2000), w, padding_idx=5), randn(300, 200)),
    "cat": lambda: [nt.cat([randn(700, 300), randn(700, 200)], 1), nt.stack([randn(200_001), randn(200_001)], 1)],
    "factories": lambda: [
        nt.arange(500_001),
        nt.arange(0, 9, 1e-5),
        nt.full((500_001,), 3),
        nt.linspace(0, 1, 500_001),
    ],
    "triangles": lambda: [randn(900, 700).tril(), randn(3, 700, 300).triu(1)],
    "random": lambda: [
        nt.rand(500_001),
        nt.randint(9, (500_001,)),
        nt.randperm(100_000),
        nt.rand(300_001).bernoulli_(0.3),
    ],
    "dropout": lambda: gradients(lambda x: F.dropout(x, 0.3), randn(500_001)),
    "losses": lambda: [
        *gradients(lambda x: F.cross_entropy(x, index(300, 2000)), randn(2000, 300)),
        *gradients(lambda x: F.mse_loss(x, randn(500_001)), randn(500_001)),
        F.binary_cross_entropy(nt.rand(300_001), nt.rand(300_001)),
        F.nll_loss(randn(2000, 300), index(300, 2000), reduction="none"),
    ],
    "attention": lambda: gradients(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), *[randn(2, 6, 200, 32) for _ in "qkv"]
    ),
    "exponential": lambda: [nt.empty(70_001).exponential_(2.0), nt.empty(70_001).to(nt.float16).exponential_()],
    "counted": lambda: nt.bincount(index(700, 500_001)),
    "divided": lambda: [index(99, 500_001) // index(9, 500_001).add(1), randn(500_001).fmod(0.7)],
}


@at_both_ends
@pytest.mark.parametrize("name", BIG)
def test_sizes_that_are_split(name: str, level: str) -> None:
    with kernels(level):
        check_same(BIG[name])


# ---- what the order of sums is for -------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "sums",
    [
        lambda: nt.full((1 << 24,), 0.1).sum() / (1 << 24),
        lambda: nt.full((1 << 24,), 0.1).mean(),
        lambda: nt.full((1 << 21, 8), 0.1).sum(0) / (1 << 21),
        lambda: nt.full((2, 1 << 24), 0.1).t().sum(0) / (1 << 24),
    ],
    ids=["sum", "mean", "columns", "strided"],
)
def test_what_is_lost_grows_with_the_logarithm(sums: Callable[[], Any]) -> None:
    exact = float(torch.tensor(0.1))
    assert sums().sub(exact).abs().max().item() / exact < 4e-6


def test_what_is_read_in_two_places_has_the_bits_of_one() -> None:
    """More than caches hold is folded in two places in turns; halves of it, which are not far, in one."""
    near = 1 << 22  # elements: 16 MiB
    x = nt.randn(2, near, generator=nt.Generator().manual_seed(1))
    rows = nt.cat([x[:1].sum(1), x[1:].sum(1)])
    assert x.sum(1).equal(rows)
    assert x.t().contiguous().t().sum(1).equal(rows)
    whole = x.view(-1)[: near + 12_345]
    compiled = nt.compile(lambda t: (t * 1).sum())
    assert whole.sum().equal(compiled(whole))
    assert whole.double().sum().item() == pytest.approx(whole.sum().item(), abs=0.1)
