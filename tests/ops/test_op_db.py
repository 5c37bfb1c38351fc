"""Every entry of PyTorch's own table of operators (op_db) whose operator Narthex has, five ways (tests/ops/op_db.py).

Of each entry up to so many of PyTorch's samples run; an entry passes a way if all of them do. What does not stands in
`EXPECTED`, and an entry that begins to pass must leave it. The end of the run prints the counts and that table.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from torch.testing._internal.common_methods_invocations import op_db

from tests.ops.op_db import DTYPES, WAYS, Sample, find, identity, samples

AT_LEAST = 60  # entries that pass all ways


class Expected(NamedTuple):
    """An entry fails these ways, with errors that say `text`, or a part of it: `this | that`."""

    ways: str
    text: str
    reason: str


ALL = "value gradient forward fake compiled"
NO_GRADIENT = "value fake compiled"  # of what has none
DATA = "how many there are, only elements say; capture ends the graph"
INSIDE = "the samples lie inside larger tensors, and copies of them do not"
NO_SLOPE = "what PyTorch gives for the tensor written into is no derivative; an offset as in as_strided"
PLACES = "an offset counts from where no graph knows what begins"
ROWS = {
    "__getitem__": ("fake compiled", "elements", DATA),
    "allclose": ("fake compiled", "captur", "a number of the data, as of item"),
    "bincount": ("fake compiled", "elements", DATA),
    "equal": ("fake compiled", "captur", "a number of the data, as of item"),
    "histc": ("fake compiled", "item", "the range of the elements"),
    "histogram": ("fake compiled", "item", "the range of the elements"),
    "histogramdd": ("fake compiled", "item", "the range of the elements"),
    "index_put": ("fake compiled", "elements", DATA),
    "item": ("fake compiled", "item", "a number of the data: there is none on a fake tensor; capture ends the graph"),
    "linspace.tensor_overload": ("fake compiled", "item", "the numbers in tensors"),
    "logcumsumexp": ("gradient forward", "not close", "beside 10,000 float32 has two digits, on both sides"),
    "logsumexp": ("gradient", "not close", "complex64: PyTorch's of a single number has two digits"),
    "repeat_interleave": ("fake compiled", "elements", DATA),
    "to_sparse": ("fake compiled", "elements | origin", DATA),
    "logspace.tensor_overload": ("fake", "item", "the numbers in tensors"),
    "masked_select": ("fake compiled", "elements", DATA),
    "narrow": ("fake compiled", "item", "a tensor as start is a number of the data"),
    "_native_batch_norm_legit": (ALL, "argument 'training' | have a gradient", "the form with running statistics"),
    "native_layer_norm": ("gradient", "have a gradient, in PyTorch [0]", "of mean and rstd, which PyTorch has not"),
    "nextafter": ("gradient forward", "PyTorch [0] | AssertionError", "PyTorch's gradient raises"),
    "as_strided": ("compiled", "start of memory", PLACES),
    "as_strided_copy": ("compiled", "start of memory", PLACES),
    "as_strided.partial_views": (ALL, "not close | not equal | out of bounds | start of memory", INSIDE),
    "as_strided_scatter": ("gradient compiled", "not close | start of memory", NO_SLOPE),
    "nn.functional.rrelu": ("fake compiled", "item | tolist", "how many slopes are drawn, the elements' signs say"),
    "nn.functional.embedding_bag": ("fake compiled", "has no elements | (warn)", "offsets are read; it warns"),
    "nn.functional.upsample_nearest": ("compiled", "does not know (warn)", "it warns; capture cannot"),
    "nn.functional.upsample_bilinear": ("compiled", "does not know (warn)", "it warns; capture cannot"),
    "_upsample_bilinear2d_aa": (ALL, "aten::_upsample_bilinear2d_aa()", "the overload with lists of factors"),
    "svd_lowrank": (ALL, "multiple values | svd_backward", "its samples go through a function of op_db's own"),
    "pca_lowrank": (ALL, "multiple values | svd_backward", "its samples go through a function of op_db's own"),
    "max_pool2d_with_indices_backward": (ALL, "return_indices", "its samples go through a function of op_db's own"),
    "nn.functional.kl_div": ("compiled", "does not know (warn)", "reduction='mean' warns; capture cannot"),
    "nn.functional.ctc_loss": ("fake compiled", "captur", "lengths in tensors are data"),
    "nn.functional.bilinear": ("value", "Mismatched", "PyTorch rounds bfloat16 in other places"),
    "normal.in_place": (NO_GRADIENT, "normal", "PyTorch's entry of this name calls Tensor.normal_"),
    "normal.number_mean": ("value", "Mismatched", "PyTorch's entry hands mean and std over the other way round"),
    "nn.functional.dropout2d": ("compiled", "does not know (warn)", "three dimensions warn; capture cannot"),
    "nn.functional.gaussian_nll_loss": ("fake compiled", "elements", "whether a variance is negative, only they say"),
    "argwhere": ("fake compiled", "nonzero", DATA),
    "nonzero": ("fake compiled", "nonzero", DATA),
    "nn.functional.one_hot": ("fake compiled", "elements", "without num_classes: " + DATA),
    "tensor_split": (ALL, "invalid combination | item", "a tensor as indices; as sections it is a number of the data"),
}  # fmt: skip
ROWS |= {name: ("fake compiled", "nonzero", DATA) for name in ("unique", "unique_consecutive")}
HALF = "PyTorch rounds in between"
ROWS["istft"] = ("gradient", "AssertionError", "PyTorch gives some windows none; the front's tests compare it")
ROWS["nn.functional.bilinear"] = ("value", "not close", HALF)
ROWS["addr"] = ("value", "not close", HALF)
ROWS["renorm"] = ("gradient", "not close", "of complex numbers")
ROWS["matrix_exp"] = ("value forward", "BFloat16 | not close", "of half types; last digits of float32")
RESIDUALS = "TensorBase.item | elements | "
ROWS["linalg.lstsq"] = ("gradient fake compiled", RESIDUALS + "have a gradient", "of residuals, data decide")
ROWS["linalg.lstsq.grad_oriented"] = (ALL, RESIDUALS + "AssertionError", "its sample takes the first result alone")
ROWS["linalg.householder_product"] = ("gradient forward", "not close", "complex64: PyTorch loses digits")
ROWS["linalg.pinv.singular"] = (ALL, "rtol must have | AssertionError", "its sample multiplies first")
EXPECTED = {name: Expected(*row) for name, row in ROWS.items()}
# Elements that are equal may come in any order: only dtypes without them are compared.
TIES = ("sort", "argsort", "topk", "kthvalue", "mode")
OPS = [op for op in op_db if find(op.name) is not None]


def run_samples(op: Any) -> dict[str, list[tuple[Sample, Exception | None]]]:
    """Each way's samples with what they raised: values of all dtypes, the other ways of the first that there is and of
    complex numbers."""
    found: dict[str, list[tuple[Sample, Exception | None]]] = {way: [] for way in WAYS}
    without = set() if op.supports_autograd else {"gradient", "forward"}
    without |= set() if op.supports_forward_ad else {"forward"}
    ways = [way for way in WAYS if way not in without]
    for dtype in DTYPES[: 1 if op.name in TIES else None]:
        given = list(samples(op, dtype)) if dtype in op.supported_dtypes("cpu") else []
        for way in [*WAYS] if dtype.is_complex and given else ways:
            if way in without:
                continue
            for sample in given:
                try:
                    WAYS[way](sample)
                    found[way].append((sample, None))
                except Exception as error:
                    error.add_note(f"{way} of {identity(op)}, {dtype}: {sample.text}")
                    found[way].append((sample, error))
        if given:
            ways = ["value"]
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("op", OPS, ids=identity)
def test_op_db(op: Any, record_property: Any) -> None:
    name, found = identity(op), run_samples(op)
    if not found["value"]:
        pytest.skip("no sample with tensors that Narthex has: complex, sparse, or none for the CPU")
    failed = {way: [error for _, error in ran if error is not None] for way, ran in found.items() if ran}
    expected = EXPECTED.get(name)
    reason = f"{expected.reason} ({expected.text})" if expected else ""
    record_property("op_db", [name, {way: not errors for way, errors in failed.items()}, reason])
    ways = expected.ways.split() if expected else []
    for way, errors in failed.items():
        for error in errors:
            said = f"{type(error).__name__}: {error}"
            if way not in ways or not any(text in said for text in expected.text.split(" | ")):
                raise error
    passed = [way for way in ways if not failed.get(way)]
    assert not passed, f"{name} passes by {', '.join(passed)}: take that out of EXPECTED"


def test_counts() -> None:
    """test_op_db holds every entry to its row; entries without one pass whatever they have."""
    rows = set(EXPECTED)
    assert rows <= {identity(op) for op in OPS}, "a row of an entry that is not there"
    assert sum(op.supports_autograd and identity(op) not in rows for op in OPS) >= AT_LEAST
