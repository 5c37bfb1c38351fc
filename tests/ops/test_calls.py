"""Ways of calling operators beside what their entries list: out= of composed operators and factories, several outs, and
arguments that PyTorch takes. PyTorch is the oracle, in values, types of errors and, where it is named, their texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import narthex as nt
import pytest
import torch

Call = Callable[..., Any]


def matrix(t: Any) -> Any:
    return t.tensor([[0.5, 1.0, -2.0], [3.0, 0.25, 0.5], [1.0, 1.0, -1.0]])


# Composed operators and factories: the call without its out.
OUTS: dict[str, Call] = {
    "matmul": lambda t, x, **k: t.matmul(x, x, **k),
    "matmul of a vector": lambda t, x, **k: t.matmul(x, x[0], **k),
    "outer": lambda t, x, **k: t.outer(x[0], x[1], **k),
    "ger": lambda t, x, **k: t.ger(x[0], x[1], **k),
    "baddbmm": lambda t, x, **k: t.baddbmm(x[None], x[None], x[None], **k),
    "std": lambda t, x, **k: t.std(x, 1, **k),
    "var": lambda t, x, **k: t.var(x, [0], correction=0, **k),
    "norm": lambda t, x, **k: t.norm(x, 3, **k),
    "norm of rows": lambda t, x, **k: t.norm(x, dim=1, **k),
    "normalize": lambda t, x, **k: t.nn.functional.normalize(x, **k),
    "softmax": lambda t, x, **k: t.softmax(x, 1, **k),
    "log_softmax": lambda t, x, **k: t.log_softmax(x, 0, **k),
    "logsumexp": lambda t, x, **k: t.logsumexp(x, 1, **k),
    "square": lambda t, x, **k: t.square(x, **k),
    "clamp of tensors": lambda t, x, **k: t.clamp(x, x * 0, x + 1, **k),
    "clip": lambda t, x, **k: t.clip(x, 0, 1, **k),
    "max of two": lambda t, x, **k: t.max(x, -x, **k),
    "hstack": lambda t, x, **k: t.hstack([x, x], **k),
    "column_stack": lambda t, x, **k: t.column_stack([x[0], x[1]], **k),
    "diag": lambda t, x, **k: t.diag(x[0], **k),
    "any over none": lambda t, x, **k: t.any(x, dim=(), **k),
    "masked_select": lambda t, x, **k: t.masked_select(x, x > 0, **k),
    "nonzero": lambda t, x, **k: t.nonzero(x > 0, **k),
    "argsort": lambda t, x, **k: t.argsort(x, stable=True, **k),
    "zeros": lambda t, x, **k: t.zeros(2, 3, **k),
    "ones": lambda t, x, **k: t.ones([4], **k),
    "full": lambda t, x, **k: t.full((2,), 3, **k),
    "eye": lambda t, x, **k: t.eye(3, **k),
    "eye, two sizes": lambda t, x, **k: t.eye(2, 3, **k),
    "arange": lambda t, x, **k: t.arange(5, **k),
    "arange from": lambda t, x, **k: t.arange(1, 5, **k),
    "arange by": lambda t, x, **k: t.arange(5, 1, -2, **k),
    "linspace": lambda t, x, **k: t.linspace(0, 1, 5, **k),
    "randn": lambda t, x, **k: t.randn(2, 3, **k),
    "rand": lambda t, x, **k: t.rand(20, **k),
}
TRUTHS = {"any over none": "bool", "nonzero": "int64", "argsort": "int64"}


def outcome(t: Any, call: Call, out: Any) -> tuple[str, Any]:
    t.manual_seed(3)
    try:
        result = call(t, matrix(t), out=out)
    except (RuntimeError, TypeError, IndexError) as error:
        return type(error).__name__, str(error)
    assert result is out
    return str(result.dtype), (tuple(result.shape), result.tolist())


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("name", OUTS)
def test_out_is_written(name: str) -> None:
    dtype = TRUTHS.get(name, "float32")
    for size in ((0,), (7,)):  # one that grows, one of another size
        mine, other = (outcome(t, OUTS[name], t.ones(size, dtype=getattr(t, dtype))) for t in (nt, torch))
        assert mine[0] == other[0] and mine[1][0] == other[1][0]
        assert torch.allclose(torch.tensor(mine[1][1]), torch.tensor(other[1][1]), atol=1e-6)


@pytest.mark.parametrize("name", ["matmul", "std", "square", "outer", "clamp of tensors", "max of two", "softmax"])
def test_out_of_a_dtype_that_holds_no_fractions(name: str) -> None:
    mine, other = (outcome(t, OUTS[name], t.empty(0, dtype=t.int64)) for t in (nt, torch))
    assert mine[0] == other[0] == "RuntimeError"


@pytest.mark.parametrize("name", ["std", "square", "outer", "hstack", "logsumexp"])
def test_out_of_a_wider_dtype(name: str) -> None:
    mine, other = (outcome(t, OUTS[name], t.empty(0, dtype=t.float64)) for t in (nt, torch))
    assert mine[0] == other[0] == "torch.float64" and mine[1][0] == other[1][0]
    assert torch.allclose(torch.tensor(mine[1][1]), torch.tensor(other[1][1]), atol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_out_of_a_wider_dtype_gets_what_the_half_type_holds(dtype: str) -> None:
    def made(m: Any) -> Any:
        x, y = m.arange(1.0, 40.0).to(getattr(m, dtype)), m.tensor(0.7, dtype=m.float64)
        return [f(x, y, out=m.empty(39, dtype=m.float32)).tolist() for f in (m.mul, m.div, m.add)]

    assert made(nt) == made(torch)


@pytest.mark.parametrize("name", ["matmul", "std", "outer"])
def test_out_and_gradients(name: str) -> None:
    text = "functions with out=... arguments don't support automatic differentiation, but one of the arguments"
    for t in (nt, torch):
        with pytest.raises(RuntimeError, match=text):
            OUTS[name](t, matrix(t).requires_grad_(), out=t.empty(0))
        with pytest.raises(RuntimeError, match=text):
            OUTS[name](t, matrix(t), out=t.empty(0, requires_grad=True))
        with t.no_grad():
            assert OUTS[name](t, matrix(t).requires_grad_(), out=t.empty(0)).numel() > 0


def test_out_counts_as_a_write_and_keeps_what_lies_around() -> None:
    block = nt.zeros(5, 4)
    out = block[1:4, :3]
    version = block._version
    assert nt.matmul(matrix(nt), matrix(nt), out=out) is out
    assert block._version > version
    assert nt.equal(block[1:4, :3], matrix(nt) @ matrix(nt))
    assert not block[0].any() and not block[4].any() and not block[:, 3].any()


def test_out_may_be_an_argument() -> None:
    x, y = matrix(nt), matrix(torch)
    assert torch.allclose(torch.tensor(nt.matmul(x, x, out=x).tolist()), y @ y)


@pytest.mark.parametrize("name", ["matmul", "std", "zeros", "outer"])
def test_out_in_a_compiled_function(name: str) -> None:
    def into(x: Any, y: Any) -> Any:
        OUTS[name](nt, x, out=y)
        return y + 1

    y = OUTS[name](nt, matrix(nt)) * 0
    expected = OUTS[name](nt, matrix(nt))
    assert nt.equal(nt.compile(into)(matrix(nt), y), expected + 1)
    assert nt.equal(y, expected)


PAIRS: dict[str, Call] = {
    "max": lambda t, x, **k: t.max(x, 1, **k),
    "min": lambda t, x, **k: t.min(x, 0, keepdim=True, **k),
    "sort": lambda t, x, **k: t.sort(x, dim=0, **k),
    "topk": lambda t, x, **k: t.topk(x, 2, **k),
}


@pytest.mark.parametrize("name", PAIRS)
def test_two_outs(name: str) -> None:
    for kind in (tuple, list):
        found = []
        for t in (nt, torch):
            outs = kind([t.empty(0), t.empty(0, dtype=t.int64)])
            values, indices = PAIRS[name](t, matrix(t), out=outs)
            assert values is outs[0] and indices is outs[1]
            found.append((values.tolist(), indices.tolist()))
        assert found[0] == found[1]


@pytest.mark.parametrize("name", PAIRS)
def test_two_outs_of_other_kinds(name: str) -> None:
    for t in (nt, torch):
        with pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
            PAIRS[name](t, matrix(t), out=(t.empty(0), t.empty(0, dtype=t.int32)))
        with pytest.raises(TypeError):
            PAIRS[name](t, matrix(t), out=t.empty(0))
        with pytest.raises(TypeError):
            PAIRS[name](t, matrix(t), out=(t.empty(0),))


def strange(t: Any) -> Any:
    nan, inf = float("nan"), float("inf")
    return t.tensor([complex(nan, 1), complex(inf, nan), complex(1, -inf), complex(-inf, inf), 2 - 3j])


def products(t: Any) -> Any:
    return t.arange(8.0).view(2, 2, 2).to(t.complex64) + 1j


# Calls whose result, or error with its text, is PyTorch's.
SAME: dict[str, Call] = {
    "any over none": lambda t: matrix(t).gt(1).any(dim=()),
    "all over none": lambda t: matrix(t).all(dim=(), keepdim=True),
    "any of uint8 over none": lambda t: t.tensor([0, 3], dtype=t.uint8).any(dim=()),
    "any over two": lambda t: matrix(t).any(dim=(0, 1)),
    "all of nothing": lambda t: t.zeros(0, 3).all(dim=(0,)),
    "where by uint8": lambda t: t.where(t.tensor([0, 1, 2], dtype=t.uint8), t.ones(3), t.zeros(3)),
    "where by uint8, of bools": lambda t: t.where(t.tensor([0, 2], dtype=t.uint8), t.tensor([True]), t.tensor([False])),
    "roll of a number": lambda t: t.tensor(1.0).roll(3),
    "roll of a number along a dim": lambda t: t.tensor(1.0).roll(1, 0),
    "roll of a number along the last": lambda t: t.tensor(1.0).roll(1, -1),
    "erfinv_": lambda t: t.tensor([0.5, -1.0, 2.0, -0.25, 0.0]).erfinv_(),
    "erfinv of integers": lambda t: t.tensor([0, 1, -1]).erfinv(),
    "clamp of uint8 below 0": lambda t: t.tensor([1, 250, 255], dtype=t.uint8).clamp(min=-5),
    "clamp_min of uint8 below 0": lambda t: t.tensor([1, 250, 255], dtype=t.uint8).clamp_min(-5),
    "bool minus number": lambda t: t.tensor([2.0]) - t.tensor([True]).float(),
    "trapezoid of no integers": lambda t: t.trapezoid(t.ones(2, 0, dtype=t.int32)),
    "trapezoid of no truth values": lambda t: t.trapezoid(t.ones(0, dtype=t.bool)),
    "nan_to_num of complex numbers": lambda t: t.view_as_real(t.nan_to_num(strange(t))),
    "nan_to_num of complex numbers, given": lambda t: t.view_as_real(t.nan_to_num(strange(t), 2.0, 3.0, 4.0)),
    "nan_to_num_ of complex numbers": lambda t: t.view_as_real(strange(t).to(t.complex128).nan_to_num_(posinf=3.0)),
    "unique of a vector's parts": lambda t: t.unique(t.tensor([3, 1, 3]), dim=0),
    "unique of a vector's parts, inverse": lambda t: t.unique(t.tensor([3.0, 1.0, 3.0]), dim=0, return_inverse=True)[1],
    "norm of number -1": lambda t: t.linalg.vector_norm(t.tensor([[1.0, 0.0], [2.0, -4.0]]), -1, dim=1),
    "unravel_index of int32": lambda t: t.unravel_index(t.tensor([3, 7], dtype=t.int32), (4, 5))[1],
    "ravel lies by itself": lambda t: [x := t.zeros(4, 2)[:, 0], x.ravel().add_(1), x][2],
    "norm of number -2": lambda t: t.linalg.vector_norm(t.tensor([1.0, 2.0]), -2),
    "baddbmm_ of a complex beta": lambda t: t.view_as_real(products(t).baddbmm_(products(t), products(t), beta=1j)),
    "addbmm_ of a complex beta": lambda t: t.view_as_real(products(t)[0].addbmm_(products(t), products(t), beta=1j)),
    "addr_ of a complex alpha": lambda t: t.view_as_real(products(t)[0].addr_(*products(t)[0], alpha=2j)),
}


@pytest.mark.filterwarnings("ignore:where received a uint8 condition")
@pytest.mark.parametrize("name", SAME)
def test_the_same_as_pytorch(name: str) -> None:
    def told(t: Any) -> tuple[Any, ...]:
        try:
            result = SAME[name](t)
        except (RuntimeError, IndexError, TypeError) as error:
            return type(error), str(error).split(": ")[-1]
        return str(result.dtype), tuple(result.shape), result.tolist()

    mine, other = told(nt), told(torch)
    assert mine[:2] == other[:2]
    assert mine[2:] == other[2:] or mine[2] == pytest.approx(other[2], nan_ok=True)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sums_of_half_types_are_rounded_once(dtype: str) -> None:
    """As in PyTorch: scatter_add and, of several dimensions, index_add hold float32 sums meanwhile."""

    def sums(t: Any) -> list[Any]:
        kind, at = getattr(t, dtype), t.zeros(3000, dtype=t.int64)
        one, rows = t.ones(3000, dtype=kind), t.ones(3000, 3, dtype=kind)
        return [
            t.zeros(2, dtype=kind).scatter_add_(0, at, one).tolist(),
            t.zeros(2, 3, dtype=kind).scatter_add_(0, at[:, None].expand(3000, 3), rows).tolist(),
            t.zeros(3, 2, dtype=kind).scatter_add(1, at.expand(3, 3000), rows.t()).tolist(),
            t.zeros(2, 3, dtype=kind).index_add_(0, at, rows).tolist(),
            t.zeros(2, dtype=kind).index_add_(0, at, one).tolist(),
            t.zeros(2, dtype=kind).index_put_((at,), one, accumulate=True).tolist(),
        ]

    assert sums(nt) == sums(torch)


def that_goes_on(m: Any) -> Any:
    """A module in evaluation mode whose statistics go on before its backward."""
    norm = m.nn.BatchNorm1d(3)
    norm.eval()
    result = norm(m.arange(12.0).view(4, 3).sin())
    norm.train()
    norm(m.arange(12.0).view(4, 3))
    return norm, result


def test_statistics_go_on_before_a_backward() -> None:
    """The gradients are those of the statistics that the forward read, where PyTorch reads the later ones."""
    norm, result = that_goes_on(nt)
    result.square().sum().backward()
    x = torch.arange(12.0).view(4, 3).sin()
    weight, bias = torch.ones(3, requires_grad=True), torch.zeros(3, requires_grad=True)
    theirs = torch.nn.functional.batch_norm(x, torch.zeros(3), torch.ones(3), weight, bias)
    theirs.square().sum().backward()
    for mine, wanted in ((norm.weight.grad, weight.grad), (norm.bias.grad, bias.grad)):
        torch.testing.assert_close(torch.from_dlpack(mine), wanted)


RARE = {
    "fill_": lambda m, x: x.expand(3, 4).fill_(2),
    "zero_": lambda m, x: x.expand(3, 4).zero_(),
    "compiled fill_": lambda m, x: (m.compile(lambda y: y.expand(3, 4).fill_(2), backend=backend(m))(x), x)[1],
    "tensor_split by a number": lambda m, x: m.tensor_split(m.arange(7), m.tensor(3))[1],
    "tensor_split by a list": lambda m, x: m.arange(7).tensor_split(m.tensor([1, 5]))[1],
    "tensor_split by floats": lambda m, x: m.arange(7).tensor_split(m.tensor([1.0, 5.0])),
    "tensor_split by its name": lambda m, x: split_by(m)(m.arange(7), m.tensor(2))[1],
    "linspace of tensors into": lambda m, x: m.linspace(m.tensor(1.0), m.tensor(2.0), 3, out=m.ones(0)),
    "linspace of a tensor into": lambda m, x: m.linspace(1.0, m.tensor(2.0), 3, out=m.ones(3, dtype=m.float64)),
    "logspace into": lambda m, x: m.logspace(m.tensor(1.0), 2, 3, out=m.ones(0)),
    "logspace of a row": lambda m, x: m.logspace(m.tensor([1.0]), 2, 3),
    "addmm of what does not fit": lambda m, x: m.addmm(m.ones(3), m.ones(2, 3), m.ones(3, 2)),
    "addmm of another height": lambda m, x: m.addmm(m.ones(3, 1), m.ones(2, 3), m.ones(3, 2)),
    "an axis that keeps its size": lambda m, x: m.nn.functional.interpolate(
        m.arange(12.0).sin().view(1, 1, 6, 2), scale_factor=(1.5, 1.4), mode="bilinear", antialias=True
    ).ravel(),
    "two bools": lambda m, x: m.ones(1, dtype=m.bool) - m.ones(1, dtype=m.bool),
    "too many": lambda m, x: m.abs("a", 3),
    "far too many": lambda m, x: m.addr(x, x, x, x),
    "what is missing": lambda m, x: m.adaptive_avg_pool1d(x),
    "numbers alone": lambda m, x: m.remainder(2, 3),
    "a number before a tensor": lambda m, x: m.remainder(7, x),
    "None in a list": lambda m, x: m.cat([x, None]),
    "an index that is written": lambda m, x: gather_into(m, m.tensor([0, 1, 2])),
    "a step that is cut off": lambda m, x: m.arange(0, 64, 0.5, out=m.ones(0, dtype=m.int64)),
    "addbmm_ of a row": lambda m, x: x[0].clone().addbmm_(m.ones(2, 2, 5), m.ones(2, 5, 4), beta=2),
    "addbmm_ of another size": lambda m, x: m.ones(3, 4).addbmm_(m.ones(2, 2, 5), m.ones(2, 5, 4)),
    "factors of a picture": lambda m, x: by_factors(m)(picture(m), None, False, [1.5, 0.5]).ravel(),
    "sizes of a picture": lambda m, x: by_factors(m)(picture(m), [3, 8], False, None).ravel(),
    "sizes and factors": lambda m, x: by_factors(m)(m.ones(1, 1, 4, 6), [3, 8], False, [1.5, 0.5]),
    "neither": lambda m, x: by_factors(m)(m.ones(1, 1, 4, 6), None, False, None),
    "too few factors": lambda m, x: by_factors(m)(m.ones(1, 1, 4, 6), None, False, [2.0]),
    "a pad that cuts off too much": lambda m, x: m.nn.functional.pad(m.ones(1, 1, 5), (1, -7)),
    "a pad that cuts off what it adds": lambda m, x: m.nn.functional.pad(m.ones(1, 1, 5), (6, -6)),
    "a pad that cuts off all": lambda m, x: m.nn.functional.pad(m.ones(1, 1, 5), (3, -5)),
}


def gather_into(m: Any, index: Any) -> Any:
    return m.gather(m.arange(4), 0, index[1:], out=index[:2])


def picture(m: Any) -> Any:
    return m.arange(24.0).view(1, 1, 4, 6)


def by_factors(m: Any) -> Any:
    return m.ops.aten._upsample_bilinear2d_aa.vec


def split_by(m: Any) -> Any:
    return m.ops.aten.tensor_split.tensor_indices_or_sections


def backend(m: Any) -> Any:
    return "eager" if m is torch else "narthex"


def test_arguments_that_fit_no_schema() -> None:
    """torch.ops raises other errors than functions and methods do."""
    calls: list[Call] = [
        lambda m, x: m.ops.aten.mm(1, x),
        lambda m, x: m.ops.aten.mm.default(1, x),
        lambda m, x: m.ops.aten.eq(2, x),
        lambda m, x: m.ops.aten.eq.Tensor(2, x),
        lambda m, x: m.ops.aten.cat([1, x]),
        lambda m, x: m.eq(2, x),
        lambda m, x: m.mm(1, x),
    ]
    for call in calls:
        for m in (nt, torch):
            error = TypeError if call in calls[5:] else RuntimeError
            with pytest.raises(error) as raised:
                call(m, m.ones(3, 3))
            assert type(raised.value) is error


@pytest.mark.parametrize("name", RARE)
def test_rare_calls(name: str) -> None:
    def told(m: Any) -> Any:
        try:
            return RARE[name](m, m.ones(3, 1)).tolist()
        except Exception as error:
            return type(error).__name__, str(error).split("\n")[0]

    mine, theirs = told(nt), told(torch)
    if isinstance(theirs, tuple):
        assert mine[0] == theirs[0] and mine[1].endswith(theirs[1])
    else:
        assert mine == pytest.approx(theirs, rel=1e-6, abs=1e-6) if isinstance(theirs[0], float) else mine == theirs


def last(x: Any, t: Any) -> Any:
    return x.to(memory_format=t.channels_last)


def gradients(t: Any, x: Any, weight: Any) -> Any:
    x, weight = x.requires_grad_(), weight.requires_grad_()
    y = t.nn.functional.conv2d(x, weight)
    return y, *t.autograd.grad(y.sum(), (x, weight))


def in_groups(t: Any, x: Any) -> Any:
    y = t.nn.functional.group_norm(x.requires_grad_(), 2)
    return y, *t.autograd.grad(y.sum(), x)


def normal(t: Any, x: Any) -> Any:
    return (t.nn.functional.batch_norm(x, t.zeros(3), t.ones(3), training=training) for training in (False, True))


# What lies row by row and channels last at once, or in neither way.
LAYOUTS: dict[str, Call] = {
    "1x1, weight last": lambda t: gradients(t, t.ones(2, 4, 5, 5), last(t.ones(3, 4, 1, 1), t)),
    "1x1, both last": lambda t: gradients(t, last(t.ones(2, 4, 5, 5), t), last(t.ones(3, 4, 1, 1), t)),
    "1x1, neither": lambda t: gradients(t, t.ones(2, 4, 5, 5), t.ones(3, 4, 1, 1)),
    "batch norm, turned": lambda t: normal(t, t.ones(2, 4, 3).transpose(1, 2)),
    "batch norm, images inside": lambda t: normal(t, t.ones(3, 2, 4, 5).transpose(0, 1)),
    "batch norm, last": lambda t: normal(t, last(t.ones(2, 3, 4, 5), t)),
    "batch norm of one place, last": lambda t: [*normal(t, last(t.ones(2, 3, 1, 1), t))][1:],
    "group norm, last": lambda t: in_groups(t, last(t.ones(2, 6, 4, 5), t)),
    "group norm of one place, last": lambda t: in_groups(t, last(t.ones(2, 6, 1, 1), t)),
    "group norm, turned": lambda t: in_groups(t, t.ones(4, 1, 6, 1).permute(1, 2, 3, 0)),
    "one dimension more": lambda t: (
        t.ones(1, 5).expand(1, 1, 5),
        t.ones(5).expand(1, 1, 5),
        t.ones(5, 4)[:, :2].expand(1, 5, 2),
    ),
    "several, of one and of more": lambda t: (
        t.ones(5, 1).expand(1, 2, 1, 5, 4),
        t.ones(()).expand(1, 1),
        t.ones(5, 1).expand(1, 5, 4),
    ),
    "pooling of one place, last": lambda t: (t.nn.functional.avg_pool2d(last(t.ones(2, 3, 1, 1), t), 1),),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_results_lie_as_in_pytorch(name):
    ours, theirs = ([(*x.shape, *x.stride()) for x in LAYOUTS[name](t)] for t in (nt, torch))
    assert ours == theirs


@pytest.mark.parametrize("size", [(0,), (3, 0), (0, 3), (3, 1), (3, 4)])
def test_trapezoids_of_few_numbers(size):
    def outcome(t):
        y = t.arange(float(t.Size(size).numel())).reshape(size)
        given = [t.cumulative_trapezoid(y), t.cumulative_trapezoid(y, t.ones(size[-1:])), t.trapezoid(y, dx=2.0)]
        return [x.tolist() for x in given]

    assert outcome(nt) == outcome(torch)
