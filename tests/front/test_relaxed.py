"""Tensors without dimensions where a number is asked for, and numbers where torch.add and its kin begin."""

from __future__ import annotations

import math

import narthex as nt
import numpy
import pytest
import torch

CALLS = [
    "full((2,), T(3))", "full((2,), fill_value=T(3.5))", "full((2,), T(3., requires_grad=True))",
    "arange(T(4))",
    "arange(T([4]))", "arange(0, T(4), dtype=M.float32)",
    "div(7, 2, rounding_mode='trunc')", "add(1, 2.5)", "mul(2, 3)",
    "floor_divide(7, 2)", "zeros(4).narrow(0, T(1), T(2))", "zeros(3).clamp(T(1), 2)", "linspace(T(0.), T(1.), 3)",
    "zeros(3, 4).sum(T(1))", "zeros(3, 4).sum(T(1.))", "dropout(ones(3), T(0.), True)", "zeros(T(2), T(3))",
    "zeros([T(2), 3])", "roll(arange(4), T(1))", "zeros(2, 3).transpose(T(0), T(1))",
    "zeros([2, T([3])])", "zeros((T([2]), 3))", "zeros([T([2, 3]), 3])", "zeros([2, A(3)])", "zeros([2, A(3.5)])",
    "nn.functional.interpolate(ones(1, 1, 4), [T([2])])", "zeros(24).view(2, T(3), 4)",
    "nn.functional.leaky_relu(T([-1.]), T(.5))", "clamp_min(zeros(2), T(1.))",
]  # fmt: skip


def answer(module, call: str):
    names = {
        "M": module,
        "T": module.tensor,
        "A": numpy.array,
        **{n: getattr(module, n) for n in ("zeros", "ones", "arange")},
    }
    try:
        made = eval(f"M.{call}", names)  # noqa: S307
    except (TypeError, RuntimeError) as error:
        return type(error).__name__
    return made.tolist(), str(made.dtype)


@pytest.mark.parametrize("call", CALLS)
def test_call(call: str) -> None:
    assert answer(nt, call) == answer(torch, call)


def test_inside_a_compiled_function() -> None:
    def f(x, n):
        return x.narrow(0, 0, n) * nt.full((1,), n)

    assert nt.equal(nt.compile(f)(nt.arange(5.0), nt.tensor(3)), nt.tensor([0.0, 3.0, 6.0]))
    assert nt.equal(nt.compile(f)(nt.arange(5.0), nt.tensor(2)), nt.tensor([0.0, 2.0]))


FIRST = ("add", "sub", "mul", "div", "true_divide", "floor_divide", "bitwise_and", "bitwise_or", "bitwise_xor")


@pytest.mark.parametrize("name", FIRST)
@pytest.mark.parametrize("number", [2.1, 3, True, 1j], ids=str)
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "uint8", "bool", "complex64"])
def test_a_number_before_a_tensor(name: str, number, dtype: str) -> None:
    """In the dtype that the number takes part with, and with all of its digits."""

    def answer(module):
        right = module.tensor([True, True, True] if dtype == "bool" else [1, 2, 7], dtype=getattr(module, dtype))
        try:
            made = [getattr(module, name)(number, right), getattr(module, name)(number, right[2])]
        except (TypeError, RuntimeError):
            return "raises"
        return [(part.dtype, part) for part in made]

    mine, theirs = answer(nt), answer(torch)
    assert (mine == "raises") == (theirs == "raises")
    for (dtype_mine, a), (dtype_theirs, b) in zip(mine, theirs, strict=True) if mine != "raises" else ():
        assert str(dtype_mine) == str(dtype_theirs)
        assert a.tolist() == pytest.approx(b.tolist(), rel=0 if dtype == "float64" else 1e-6)


DEPRECATED = [
    "x.add_(.5, y)", "x.add(.5, y)", "M.add(x, .5, y)", "x.sub_(2, y)", "M.sub(x, 2, y)", "x.addcmul_(.5, y, z)",
    "M.addcmul(x, .5, y, z)", "x.addcdiv_(.5, y, z)", "M.addcdiv(x, .5, y, z)",
]  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", DEPRECATED)
def test_a_factor_before_its_tensors(call: str) -> None:
    """Deprecated in PyTorch, and still what optimizers of years ago write."""
    found = []
    for module in (nt, torch):
        x, y, z = (module.tensor(values, dtype=module.float64) for values in ([1.0, 2.0], [3.0, 5.0], [7.0, 4.0]))
        found.append((eval(call, {"M": module, "x": x, "y": y, "z": z}).tolist(), x.tolist()))  # noqa: S307
    assert found[0] == found[1]


PRODUCTS = {  # the sizes of what is added to and of the factors
    "addmm": ([2, 4], [2, 3], [3, 4]), "addmv": ([2], [2, 3], [3]), "addr": ([2, 4], [2], [4]),
    "addbmm": ([2, 4], [5, 2, 3], [5, 3, 4]), "baddbmm": ([5, 2, 4], [5, 2, 3], [5, 3, 4]),
}  # fmt: skip
PRODUCT_CALLS = [
    "M.{}(.5, x, a, b)", "M.{}(.5, x, 2, a, b)", "x.{}(.5, a, b)", "x.{}(.5, 2, a, b)", "x.{}_(.5, a, b)",
    "x.{}_(.5, 2, a, b)", "M.{}(.5, x, 2, a, b, out=o)", "M.{}(x, .5, a, b)", "M.{}(.5, x, a, b, alpha=2)",
    "M.{}(.5, 2, x, a, b)", "x.{}(.5, a)", "M.{}(.5, x, a, b, beta=2)",
]  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", PRODUCT_CALLS)
@pytest.mark.parametrize("name", PRODUCTS)
def test_numbers_before_the_tensors_of_a_product(name: str, call: str) -> None:
    found = []
    for module in (nt, torch):
        x, a, b = (module.arange(1.0, 1 + math.prod(size)).reshape(size) / 7 for size in PRODUCTS[name])
        try:
            result = eval(call.format(name), {"M": module, "x": x, "a": a, "b": b, "o": module.empty(0)})  # noqa: S307
        except TypeError:
            found.append("TypeError")
        else:
            found.append([result.flatten().tolist(), x.flatten().tolist()])
    assert found[0] == found[1] or [pytest.approx(part) for part in found[1]] == found[0]


def test_a_factor_before_its_tensors_is_warned_of() -> None:
    x, y = nt.ones(2), nt.ones(2)
    with pytest.warns(UserWarning, match="overload of add_ is deprecated.*alpha="):
        x.add_(2, y)
    for wrong in (lambda: x.mul(0.5, y), lambda: x.add("a", y), lambda: x.add(0.5, 2.0), lambda: x.addcmul(y, 0.5, y)):
        with pytest.raises(TypeError):
            wrong()


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0), (3,), (2, 3)], ids=str)
def test_parts_in_turn(shape) -> None:
    """for part in x, unbind, reversed; of a tensor without elements as well."""
    mine, theirs = nt.arange(6.0)[: shape[0] * shape[-1] if len(shape) > 1 else shape[0]], None
    mine = mine.reshape(shape)
    theirs = torch.from_numpy(mine.numpy())
    for parts in (list, reversed, lambda x: x.unbind(-1), lambda x: x.split(2)):
        a, b = list(parts(mine)), list(parts(theirs))
        assert [part.tolist() for part in a] == [part.tolist() for part in b]
    assert type(mine.unbind()) is tuple


def test_reversed_of_no_dimensions() -> None:
    assert reversed(nt.tensor(3.0)).item() == 3.0
