"""out= tensors of another dtype than the result's: refused in PyTorch's words, where PyTorch casts to none."""

import re
from typing import Any

import narthex as nt
import pytest
import torch

LIBS = (nt, torch)
UNARY = "abs ceil floor frac neg round sgn sign trunc nan_to_num signbit isposinf isneginf conj_physical".split()
X = [[0.5, -1.5, 2.0], [3.0, 0.25, -0.75]]
CALLS: dict[str, Any] = {
    **{name: lambda m, x, out, name=name: getattr(m, name)(x, out=out) for name in UNARY},
    "round decimals": lambda m, x, out: m.round(x, decimals=1, out=out),
    "bitwise_not": lambda m, x, out: m.bitwise_not(m.arange(3), out=out),
    "addmv": lambda m, x, out: m.addmv(x[:, 0], x, x[0], out=out),
    "baddbmm": lambda m, x, out: m.baddbmm(x[None], x[None], m.ones(1, 3, 3), out=out),
    "addbmm": lambda m, x, out: m.addbmm(x, x[None], m.ones(1, 3, 3), out=out),
    "dot": lambda m, x, out: m.dot(x[0], x[1], out=out),
    "vdot": lambda m, x, out: m.vdot(x[0], x[1], out=out),
    "mv": lambda m, x, out: m.mv(x, x[0], out=out.new_zeros(2)),
    "cross": lambda m, x, out: m.cross(x[:1], x[1:], out=out),
    "complex": lambda m, x, out: m.complex(x, x, out=out),
    "polar": lambda m, x, out: m.polar(x, x, out=out),
    "logcumsumexp": lambda m, x, out: m.logcumsumexp(x, 0, out=out),
    "masked_select": lambda m, x, out: m.masked_select(x, x > 0, out=out),
    "index_select": lambda m, x, out: m.index_select(x, 0, m.arange(1), out=out),
    "take": lambda m, x, out: m.take(x, m.arange(2), out=out),
    "heaviside": lambda m, x, out: m.heaviside(x, x, out=out),
    "multinomial": lambda m, x, out: m.multinomial(x.abs(), 2, out=out),
    "amax": lambda m, x, out: m.amax(x, 0, out=out),
    "amin": lambda m, x, out: m.amin(x, 0, out=out),
    "aminmax": lambda m, x, out: m.aminmax(x, dim=0, out=(out, out.clone())),
    "inner": lambda m, x, out: m.inner(x, x, out=out),
    "permute_copy": lambda m, x, out: m.permute_copy(x, (1, 0), out=out),
    "view_copy": lambda m, x, out: m.view_copy(x, (3, 2), out=out),
    "t_copy": lambda m, x, out: m.t_copy(x, out=out),
    "msort": lambda m, x, out: m.msort(x, out=out),
    "take_along_dim": lambda m, x, out: m.take_along_dim(x, m.zeros(2, 3, dtype=m.int64), 0, out=out),
    "diag": lambda m, x, out: m.diag(x, out=out),
    "isin": lambda m, x, out: m.isin(x, x, out=out),
    "scatter": lambda m, x, out: m.scatter(x, 0, m.zeros(1, 3, dtype=m.int64), x, out=out),
    "index_copy": lambda m, x, out: m.index_copy(x, 0, m.arange(2), x, out=out),
    "vecdot": lambda m, x, out: m.linalg.vecdot(x, x, out=out),
    "vector_norm": lambda m, x, out: m.linalg.vector_norm(x, out=out),
}


def said(name: str, m: Any, dtype: str) -> Any:
    try:
        CALLS[name](m, m.tensor(X), m.zeros(0, dtype=getattr(m, dtype)))
    except Exception as error:
        return type(error), re.sub(r"^(aten::)?[\w.]+(\(\))?: ", "", str(error).split("\n")[0])
    return None


@pytest.mark.parametrize("name", CALLS)
def test_refused(name: str) -> None:
    for dtype in ("float64", "int32", "bool", "complex64", "float32"):
        if (name, dtype) == ("heaviside", "complex64"):  # which PyTorch refuses for itself
            continue
        mine, theirs = (said(name, lib, dtype) for lib in LIBS)
        assert mine == theirs, dtype
