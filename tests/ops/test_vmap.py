"""vmap of every entry of PyTorch's table of operators (op_db): one call for all slices gives what calls with each slice
give, whichever arguments are mapped; so do gradients inside of vmap, and a backward of many rows at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import narthex as nt
import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

from tests.ops.op_db import NO_VALUES, Sample, changed, close, find, identity, samples, tensors

SAMPLES = 2
# Slices say nothing of the place in a storage that an offset means, and a plain tensor's sizes are written; what is
# sparse; what Narthex calls otherwise.
APART = (
    "as_strided", "as_strided_copy", "as_strided.partial_views", "resize_", "resize_as_", "to_sparse",
    "_upsample_bilinear2d_aa", "tensor_split",
)  # fmt: skip
# What PyTorch refuses under vmap as well: elements decide, or running statistics are written by slices.
REFUSED = {
    "_batch_norm_with_update", "_native_batch_norm_legit", "_segment_reduce.lengths", "allclose", "argwhere",
    "bincount", "equal", "histogram", "histogramdd", "index_put", "item", "masked_select", "narrow",
    "native_batch_norm", "nn.functional.batch_norm", "nn.functional.ctc_loss", "nn.functional.embedding_bag",
    "nn.functional.gaussian_nll_loss", "nn.functional.instance_norm", "nn.functional.one_hot", "nonzero", "unique",
    "unique_consecutive",
}  # fmt: skip
OPS = [op for op in op_db if find(op.name) is not None and identity(op) not in APART]


def slices(tensor: Any) -> Any:
    """Two of one kind: as it is, and smaller."""
    with nt.no_grad():
        x = tensor.detach()
        return nt.stack([x, x * 0.75 if x.is_floating_point() else x])


def caller(sample: Sample, chosen: list[Any]) -> Callable[..., list[Any]]:
    """The tensors of a call with others in the place of `chosen`."""
    places = [id(tensor) for tensor in chosen]

    def call(*given: Any) -> list[Any]:
        others = dict(zip(places, given))
        return tensors(sample.call(changed(sample.here, lambda tensor: others.get(id(tensor), tensor))))

    return call


def each_slice(call: Callable[..., Any], stacks: list[Any]) -> list[Any] | None:
    """What a call with each slice gives; None where one fails: a smaller number may be out of its range."""
    try:
        return [call(*(stack[k] for stack in stacks)) for k in range(2)]
    except Exception:
        return None


def same(got: list[Any], wanted: list[Any], **tolerance: float) -> None:
    assert len(got) == len(wanted[0])
    for place, stacked in enumerate(got):
        for k, results in enumerate(wanted):
            assert stacked[k].dtype == results[place].dtype
            close(stacked[k], torch.from_dlpack(results[place].detach()), **tolerance)


def check_values(sample: Sample) -> None:
    everything = tensors(sample.here)
    floats = [tensor for tensor in everything if tensor.is_floating_point()]
    for chosen in (floats[:1], everything) if len(everything) > 1 else (everything,):
        if not chosen:
            continue
        call, stacks = caller(sample, chosen), [slices(tensor) for tensor in chosen]
        wanted = each_slice(call, stacks)
        if wanted is None:
            continue
        got = list(nt.vmap(lambda *given, call=call: tuple(call(*given)), randomness="same")(*stacks))
        if sample.name not in NO_VALUES:
            same(got, wanted, rtol=1e-4, atol=1e-4)


def check_gradients(sample: Sample) -> None:
    chosen = [tensor for tensor in tensors(sample.here) if tensor.is_floating_point() and tensor.requires_grad]
    if not chosen or len({id(tensor) for tensor in chosen}) < len(chosen):
        return
    call, stacks = caller(sample, chosen), [slices(tensor) for tensor in chosen]

    def number(*given: Any) -> Any:
        results = [one for one in call(*given) if one.is_floating_point() and one.requires_grad]
        return sum((one * one).sum() for one in results)

    gradient = nt.func.grad(number, argnums=tuple(range(len(chosen))))
    wanted = each_slice(gradient, stacks)
    if wanted is not None:
        same(list(nt.vmap(gradient, randomness="same")(*stacks)), wanted, rtol=2e-3, atol=2e-3)
    inputs = [stack[0].clone().requires_grad_() for stack in stacks]
    result = next((one for one in call(*inputs) if one.requires_grad and one.numel() > 0), None)
    if result is None:
        return
    rows = nt.randn(2, *result.shape, dtype=result.dtype)
    by_row = each_slice(lambda row: nt.autograd.grad(result, inputs, row, True, allow_unused=True), [rows])
    if by_row is None:
        return
    together = nt.autograd.grad(result, inputs, rows, True, allow_unused=True, is_grads_batched=True)
    there = [k for k, one in enumerate(by_row[0]) if one is not None]
    assert there == [k for k, one in enumerate(together) if one is not None]
    same([together[k] for k in there], [[row[k] for k in there] for row in by_row], rtol=2e-3, atol=2e-3)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("op", OPS, ids=identity)
def test_vmap(op: Any) -> None:
    dtype = torch.float32 if torch.float32 in op.supported_dtypes("cpu") else torch.int64
    if dtype not in op.supported_dtypes("cpu"):
        pytest.skip("complex numbers alone")
    refused = False
    for k, sample in zip(range(SAMPLES), samples(op, dtype)):
        try:
            check_values(sample)
            if op.supports_autograd and k == 0:
                check_gradients(sample)
        except RuntimeError as error:
            if not str(error).startswith("vmap: ") or identity(op) not in REFUSED:
                raise
            refused = True
    assert refused or identity(op) not in REFUSED, f"{identity(op)} passes: take it out of REFUSED"
