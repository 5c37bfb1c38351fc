"""PyTorch's own samples of its operators over lists of tensors (_foreach_X): as new tensors and in place."""

from __future__ import annotations

from itertools import islice
from typing import Any

import narthex as nt
import pytest
import torch
from torch.testing._internal import common_methods_invocations as pytorch

from tests.ops.op_db import Other, over

KINDS = ("unary", "binary", "pointwise", "reduce", "other")
OPS = [op for kind in KINDS for op in getattr(pytorch, f"foreach_{kind}_op_db")]
DTYPES = (torch.float32, torch.int64, torch.complex64)
SAMPLES = 12


def result_of(call: Any, given: list[Any], *args: Any, **keywords: Any) -> Any:
    """What the call gives, or what it wrote into, or raised."""
    try:
        made = call(given, *args, **keywords)
    except Exception as error:  # noqa: BLE001
        return error
    return given if made is None else made


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_foreach_is_pytorchs(op: Any) -> None:
    n = 0
    for call in filter(None, (op.method_variant, op.inplace_variant)):
        mine = getattr(nt, call.__name__)
        for dtype in DTYPES:
            for sample in islice(op.sample_inputs_func(op, "cpu", dtype, False, num_input_tensors=[3]), SAMPLES):
                try:
                    args, keywords = over(([list(sample.input), *sample.args], dict(sample.kwargs)), {})
                except Other:
                    continue
                wanted = result_of(call, [x.clone() for x in sample.input], *sample.args, **sample.kwargs)
                found = result_of(mine, *args, **keywords)
                if isinstance(wanted, Exception):
                    assert isinstance(found, type(wanted)), f"{found}\n{wanted}"
                    continue
                assert not isinstance(found, Exception), found
                for one, other in zip(found, wanted, strict=True):
                    assert str(one.dtype) == str(other.dtype)
                    copy = torch.tensor(one.tolist(), dtype=other.dtype).reshape(other.shape)
                    torch.testing.assert_close(copy, other, rtol=1e-4, atol=1e-5, equal_nan=True)
                    n += 1
    assert n > 0


def test_all_of_them() -> None:
    assert len(OPS) == 48
    missing = [name for name in dir(torch) if name.startswith("_foreach_") and not hasattr(nt, name)]
    assert missing == []
    mine, theirs = nt._foreach_powsum([nt.ones(2) * 3], 3), torch._foreach_powsum([torch.ones(2) * 3], 3)
    assert [x.tolist() for x in mine] == [x.tolist() for x in theirs]
