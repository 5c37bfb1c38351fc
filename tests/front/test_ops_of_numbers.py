"""torch.ops.aten of plain numbers: PyTorch's overloads for its scripts, which give a number."""

import cmath
from typing import Any

import narthex as nt
import pytest
import torch

ONE = (True, 2, -2, 0, 0.5, -0.5, 2.5, 1e300, float("inf"), float("nan"), 1 + 2j, 10**18)
TWO = ((2, 3), (-7, 3), (7, 0), (7.5, 2), (2, 0.5), (-8, 0.5), (1.5, -2), (True, 2), (float("nan"), 1.0), (2, -1))
OF_ONE = (
    "acos acosh angle asin asinh atan atanh ceil cos cosh erf erfc exp expm1 floor isfinite isinf isnan lgamma log "
    "log10 log1p neg round sin sinh sqrt tan tanh"
).split()
OF_TWO = "atan2 copysign eq fmod gcd ge gt ldexp le lt ne polar".split()


def same(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, complex):
        return cmath.isclose(a, b, rel_tol=1e-12) or repr(a) == repr(b)
    return bool(a == b or (a != a and b != b) or abs(a - b) <= 1e-12 * abs(b))


def given(library: Any, name: str, arguments: tuple) -> Any:
    try:
        return getattr(library.ops.aten, name)(*arguments)
    except RuntimeError as error:
        return error


@pytest.mark.parametrize("name", OF_ONE + OF_TWO)
def test_numbers_are_pytorchs(name: str) -> None:
    n_numbers = 0
    for arguments in TWO if name in OF_TWO else [(number,) for number in ONE]:
        expected, got = (given(library, name, arguments) for library in (torch, nt))
        if isinstance(expected, RuntimeError):
            assert isinstance(got, RuntimeError), (arguments, got)
        else:
            n_numbers += 1
            assert same(got, expected), (arguments, got, expected)
    assert n_numbers > 2


def test_an_overload_and_what_is_no_number() -> None:
    for library in (torch, nt):
        assert same(library.ops.aten.sin.float(0.5), 0.479425538604203)
        assert library.ops.aten.neg.int(3) == -3
        with pytest.raises(RuntimeError, match="sin"):
            library.ops.aten.sin("2")
        assert isinstance(library.ops.aten.sin(library.ones(2)), library.Tensor)
