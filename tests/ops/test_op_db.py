"""Every entry of PyTorch's own table of operators (op_db) whose operator Narthex has, six ways (tests/ops/op_db.py).

Of each entry up to so many of PyTorch's samples run; an entry passes a way if all of them do. What does not stands in
`EXPECTED`, and an entry that begins to pass must leave it. The end of the run prints the counts and that table.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, NamedTuple

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

from tests.ops.op_db import COMPLEX, DTYPES, WAYS, Refused, Sample, find, identity, samples

AT_LEAST = 660  # entries that pass all ways that PyTorch has for them
SECOND = 2  # samples of second gradients


class Expected(NamedTuple):
    """An entry fails these ways, with errors that say `text`, or a part of it: `this | that`."""

    ways: str
    text: str
    reason: str


DATA = "how many there are, only elements say; capture ends the graph"
INSIDE = "the samples lie inside larger tensors; duals and fakes of them do not, and an offset is as in as_strided"
NO_SLOPE = "what PyTorch gives for the tensor written into is no derivative; an offset as in as_strided"
PLACES = "an offset counts from where no graph knows what begins"
ROWS = {
    "item": ("compiled", "item", "a number of an argument alone: there is no graph"),
    "index_put": ("fake compiled", "elements", DATA),
    "repeat_interleave": ("fake", "elements", DATA),
    "to_sparse": ("fake compiled", "elements | origin | make_wrapper_subclass", DATA),
    "logcumsumexp": ("forward", "not close", "beside 10,000 PyTorch's tangents of complex numbers are NaN"),
    "matrix_exp": ("forward", "not close | BFloat16", "last digits of float32"),
    "linalg.norm.subgradients_at_zero": ("second", "not close", "PyTorch has NaN for it at 0, or for its weight"),
    "as_strided": ("compiled", "start of memory", PLACES),
    "as_strided_copy": ("compiled", "start of memory", PLACES),
    "as_strided.partial_views": ("forward fake compiled", "storage offset | start of memory", INSIDE),
    "as_strided_scatter": ("gradient second compiled", "not close | start of memory", NO_SLOPE),
}  # fmt: skip
EXPECTED = {name: Expected(*row) for name, row in ROWS.items()}
# Elements that are equal may come in any order: only dtypes without them are compared.
TIES = ("sort", "argsort", "topk", "kthvalue", "mode")
OPS = [op for op in op_db if find(op.name) is not None]
ABSENT = {
    **dict.fromkeys(("torch._scaled_mm", "torch._scaled_mm_v2"), "products of float8, which is stored alone"),
    "torch.ops.aten._flash_attention_forward": "a kernel of another device",
    "torch.ops.aten._efficient_attention_forward": "a kernel of another device",
    **dict.fromkeys((op.name for op in op_db if op.name.startswith("jiterator")), "code for another device"),
}


def run_samples(op: Any, refused: set[str]) -> dict[str, list[tuple[Sample, Exception | None]]]:
    """Each way's samples with what they raised: values of all dtypes, the other ways of the first that there is and of
    complex numbers, but for second gradients. Into `refused` go the ways of which PyTorch says as Narthex does that
    they need elements."""
    found: dict[str, list[tuple[Sample, Exception | None]]] = {way: [] for way in WAYS}
    without = {"second"} | (set() if op.supports_autograd else {"gradient", "forward"})
    without |= set() if op.supports_forward_ad else {"forward"}
    ways = [way for way in WAYS if way not in without]
    for dtype in DTYPES[: 1 if op.name in TIES else None]:
        given = list(samples(op, dtype)) if dtype in op.supported_dtypes("cpu") else []
        for way in [*WAYS] if dtype == COMPLEX and given else ways:
            if way in without:
                continue
            for sample in given:
                try:
                    WAYS[way](sample)
                    found[way].append((sample, None))
                except Refused:  # as PyTorch does
                    found[way].append((sample, None))
                    refused.add(way)
                except Exception as error:
                    error.add_note(f"{way} of {identity(op)}, {dtype}: {sample.text}")
                    found[way].append((sample, error))
        if given:
            ways = ["value"]
    return found


def run_second_gradients(op: Any) -> list[tuple[Sample, Exception | None]]:
    """What way `second` says of the first samples in float64."""
    found: list[tuple[Sample, Exception | None]] = []
    if op.supports_autograd and op.supports_gradgrad and torch.float64 in op.supported_dtypes("cpu"):
        for sample in islice(samples(op, torch.float64), SECOND):
            try:
                WAYS["second"](sample)
                found.append((sample, None))
            except Exception as error:
                error.add_note(f"second of {identity(op)}, float64: {sample.text}")
                found.append((sample, error))
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("op", OPS, ids=identity)
def test_op_db(op: Any, record_property: Any) -> None:
    refused: set[str] = set()
    name, found = identity(op), run_samples(op, refused)
    found["second"] = run_second_gradients(op)
    if not found["value"]:
        pytest.skip("no sample with tensors that Narthex has: complex, sparse, or none for the CPU")
    failed = {way: [error for _, error in ran if error is not None] for way, ran in found.items() if ran}
    expected = EXPECTED.get(name)
    reason = f"{expected.reason} ({expected.text})" if expected else ""
    record_property("op_db", [name, {way: not errors for way, errors in failed.items()}, reason, sorted(refused)])
    ways = expected.ways.split() if expected else []
    for way, errors in failed.items():
        for error in errors:
            said = f"{type(error).__name__}: {error}"
            if way not in ways or not any(text in said for text in expected.text.split(" | ")):
                raise error
    passed = [way for way in ways if not failed.get(way)]
    assert not passed, f"{name} passes by {', '.join(passed)}: take that out of EXPECTED"


def test_counts(record_property: Any) -> None:
    """test_op_db holds every entry to its row; entries without one pass whatever they have."""
    rows = set(EXPECTED)
    assert rows <= {identity(op) for op in OPS}, "a row of an entry that is not there"
    assert sum(identity(op) not in rows for op in OPS) >= AT_LEAST
    assert {op.name for op in op_db} - {op.name for op in OPS} == set(ABSENT)
    record_property("op_db_absent", [len(op_db), ABSENT])
