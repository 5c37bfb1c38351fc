"""Every case of every entry: value at every level and by the reference kernels, gradient, second gradient, fake shape,
in-place and out forms, sentinels, npu:0, compiled; PyTorch is the oracle.

A test is one operator in one way. It runs all its cases, and its failure names each case that is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import narthex as nt
import pytest
import torch
from narthex import _C
from narthex.compat import torch_npu  # noqa: F401  (adds npu:0)

from tests.ops.build import (
    arguments,
    call_ours,
    call_theirs,
    cases,
    check_equal,
    flat,
    floats,
    mapped,
    name_of,
    parts,
    to_ours,
    to_theirs,
)

ALL = cases()
GOOD = [case for case in ALL if "error" not in case]
INPLACE_FORMS = {case["op"]: "aten::" + case["forms"]["inplace"] for case in GOOD if "inplace" in case["forms"]}
VALUES = [case for case in GOOD if not case.get("meta")]
EXACT = {
    "copy_",
    "clone",
    "detach",
    "t",
    "view",
    "expand",
    "fill_",
    "zero_",
    "ones_like",
    "_to_copy",
    "normal_",
    "randn",
}
# views, and copies with a part written
EXACT |= set(
    "transpose permute unsqueeze squeeze select slice alias reshape flatten contiguous view_as expand_as narrow "
    "select_backward slice_backward select_scatter slice_scatter zeros ones full zeros_like full_like eye tril triu "
    "uniform_ bernoulli_ exponential_ rand randint embedding cat stack split split_with_sizes chunk unbind "
    "tensor_split".split()
)


def operators(of_cases: list[dict[str, Any]]) -> dict[str, Any]:
    """For parametrize: the cases of one operator together."""
    found: dict[str, list[dict[str, Any]]] = {}
    for case in of_cases:
        found.setdefault(case["op"].removeprefix("aten::"), []).append(case)
    return {"argnames": "given", "argvalues": list(found.values()), "ids": list(found)}


def each(given: list[dict[str, Any]], check: Callable[[dict[str, Any]], Any]) -> list[Any]:
    """What `check` says of every case; what is wrong with one hides no other."""
    said, wrong = [], []
    for case in given:
        try:
            said.append(check(case))
        except (Exception, pytest.fail.Exception) as error:
            wrong.append((name_of(case), error))
    if wrong:
        texts = "\n".join(f"{name}\n    {type(error).__name__}: {error}" for name, error in wrong)
        raise AssertionError(f"{len(wrong)} of {len(given)} cases:\n{texts}") from wrong[0][1]
    return said


# ---- whose kernels run -----------------------------------------------------------------------------------------------
BEST = _C.level_name()
LEVELS = ("base", "v3", "v4")


@contextmanager
def kernels(name: str) -> Iterator[None]:
    """Those of a level, or `reference`."""
    try:
        if name == "reference":
            _C.set_reference(True)
        else:
            assert _C.set_level(name)
        yield
    finally:
        _C.set_reference(False)
        _C.set_level(BEST)


def is_here(level: str) -> bool:
    here = _C.set_level(level)
    _C.set_level(BEST)
    return here


HERE = [level for level in LEVELS if is_here(level)]


@pytest.mark.parametrize("level", LEVELS)
def test_kernels_of_the_level_run(level: str) -> None:
    if level not in HERE:
        pytest.skip(f"this processor has no {level}: no case runs there")
    with kernels(level):
        assert _C.level_name() == level
    with kernels("reference"):
        assert _C.level_name() == "base"
    assert _C.level_name() == BEST


# Arguments that PyTorch does not differentiate either: weights of losses, statistics.
CONSTANTS = {
    "linalg_pinv": (1,),  # its bounds
    "fractional_max_pool2d": (3,),
    "fractional_max_pool3d": (3,),
    "grid_sampler": (0, 1),  # there is no second gradient; tests/window compares the first
    "grid_sampler_2d": (0, 1),
    "grid_sampler_3d": (0, 1),
    "grid_sampler_2d_backward": (0, 1, 2),
    "grid_sampler_3d_backward": (0, 1, 2),
    "nll_loss_forward": (2,),
    "nll_loss2d_forward": (2,),
    "nll_loss_nd": (2,),
    "cross_entropy_loss": (2,),
    "binary_cross_entropy": (2,),
    "binary_cross_entropy_with_logits": (2, 3),
    "batch_norm": (3, 4),
    "nll_loss_backward": (3, 6),
    "nll_loss2d_backward": (3, 6),
    "native_layer_norm_backward": (3, 4, 6),
}


def takes_tensors(case: dict[str, Any]) -> bool:
    """Else nothing makes a call fake, and a graph of it has no inputs."""
    return any(isinstance(arg, dict) and "tensor" in arg for arg in flat(case["args"]))


def is_data_sized(case: dict[str, Any]) -> bool:
    """Only the elements say how much there will be: no fake, no graph."""
    masks = [arg for arg in flat([a for a in case["args"] if isinstance(a, list)]) if isinstance(arg, dict)]
    masked = case["op"].startswith("aten::index") and any(arg.get("dtype") == "bool" for arg in masks)
    return bool(_C.op_info(case["op"])["data_sized"]) or masked


# Data-sized, and with fullgraph captured with what the elements say, which each call compares.
DECIDED = {"argwhere", "bincount", "masked_select", "nonzero", "nonzero_numpy", "repeat_interleave", "where"}
DECIDED |= {"tensor_split"}


def base_of(case: dict[str, Any]) -> str:
    return case["op"].removeprefix("aten::").split(".")[0]


def is_exact(case: dict[str, Any]) -> bool:
    return case["op"].removeprefix("aten::").split(".")[0] in EXACT


# ---- values ----------------------------------------------------------------------------------------------------------
def value(case: dict[str, Any]) -> None:
    args, kwargs = arguments(case)
    torch.manual_seed(3)
    theirs = call_theirs(case["op"], args, kwargs)
    for whose in ("reference", *HERE):
        twin = to_ours(arguments(case)[0])
        with kernels(whose):
            nt.manual_seed(3)
            ours = call_ours(case["op"], twin, {name: to_ours(value) for name, value in kwargs.items()})
        try:
            check_value(case, ours, theirs, twin, args)
        except AssertionError as error:
            raise AssertionError(f"kernels of {whose}: {error}") from error


def check_value(case: dict[str, Any], ours: Any, theirs: Any, twin: list[Any], args: list[Any]) -> None:
    if case.get("meta"):
        mine, other = ((tuple(x.shape), x.stride(), str(x.dtype)) for x in (ours, theirs))
        assert mine == other
        return
    if theirs is None:
        assert ours is None  # it only writes
    else:
        check_equal(ours, theirs, exact=is_exact(case), close=case["close"])
    for mine, other in zip(flat(twin), flat(args)):
        if isinstance(other, torch.Tensor):  # arguments are written by both or by neither
            check_equal(mine, other)


@pytest.mark.parametrize(**operators(GOOD))
def test_value(given: list[dict[str, Any]]) -> None:
    each(given, value)


def refused(case: dict[str, Any]) -> None:
    args, kwargs = arguments(case)
    kind = {"RuntimeError": RuntimeError, "IndexError": IndexError, "ValueError": ValueError}[
        case["error"]["type"] or "RuntimeError"
    ]
    with pytest.raises(kind):
        call_theirs(case["op"], args, kwargs)
    for whose in ("reference", *HERE):
        with kernels(whose), pytest.raises(kind) as caught:
            call_ours(case["op"], to_ours(args), {name: to_ours(value) for name, value in kwargs.items()})
        assert case["error"]["text"] in str(caught.value)


@pytest.mark.parametrize(**operators([case for case in ALL if "error" in case]))
def test_error(given: list[dict[str, Any]]) -> None:
    each(given, refused)


# ---- gradients ---------------------------------------------------------------------------------------------------
DIFFERENTIABLE = {"float32", "float64", "complex64", "complex128"}


def differentiable(case: dict[str, Any]) -> bool:
    info = _C.op_info(case["op"])
    tensors = [arg for arg in flat(case["args"]) if isinstance(arg, dict) and "tensor" in arg]
    kinds = {arg["dtype"] for arg in tensors}
    return (
        bool(info["differentiable"] or info["kind"] == "composed")
        and bool(kinds & DIFFERENTIABLE)
        and not any(arg["values"] == "special" for arg in tensors)
        and kinds <= DIFFERENTIABLE | {"int64", "int32"}
        and "dtype" not in case["kwargs"]
        and not base_of(case).startswith("_foreach_")  # what they write may be no leaf
        and base_of(case) != "view_as_complex_copy"  # PyTorch refuses to
    )


def leaves(case: dict[str, Any]) -> tuple[list[Any], list[Any], list[torch.Tensor], list[Any], dict[str, Any]]:
    args, kwargs = arguments(case)
    for k, arg in enumerate(args):
        constant = k in CONSTANTS.get(base_of(case), ())
        for leaf in [] if constant else floats([arg]):
            leaf.requires_grad_()
    twin = to_ours(arguments(case)[0])
    pairs = zip(flat(twin), flat(args))
    mine = [ours for ours, theirs in pairs if isinstance(theirs, torch.Tensor) and theirs.requires_grad]
    for leaf in mine:
        leaf.requires_grad_()
    return args, twin, [leaf for leaf in floats(args) if leaf.requires_grad], mine, kwargs


def through(case: dict[str, Any], call: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Operators that write get a value in place of the leaf, which autograd protects."""
    writes = case["op"].split(".")[0].endswith("_")
    return call(case["op"], [args[0] * 1, *args[1:]] if writes else args, kwargs)


# The entry's `close` holds for the derivative too: PyTorch approximates the first, the others are sums in other orders.
ROUGH_SLOPE = {"_standard_gamma", "linalg_pinv", "linalg_solve", "mm"}


def gradient(case: dict[str, Any]) -> bool:
    """False: PyTorch cannot differentiate this derivative."""
    args, twin, their_leaves, our_leaves, kwargs = leaves(case)
    torch.manual_seed(3)
    nt.manual_seed(3)
    theirs, ours = (
        through(case, call_theirs, args, kwargs),
        through(case, call_ours, twin, {k: to_ours(v) for k, v in kwargs.items()}),
    )
    n = len(theirs) if isinstance(theirs, list) else 1  # all of a list, else the first result
    ours, theirs = parts(ours)[:n], parts(theirs)[:n]
    if not any(one.requires_grad for one in theirs):
        assert not any(one.requires_grad for one in ours)
        return True
    generator = torch.Generator().manual_seed(1)
    seed = [torch.randn(one.shape, dtype=one.dtype, generator=generator) for one in theirs]
    try:
        their_grads = torch.autograd.grad(theirs, their_leaves, seed, allow_unused=True, create_graph=True)
    except RuntimeError as error:
        if "is not implemented" not in str(error):
            raise
        return False
    our_seed = [to_ours(g.clone()) for g in seed]
    our_grads = nt.autograd.grad(ours, our_leaves, our_seed, allow_unused=True, create_graph=True)
    close = case["close"] if base_of(case) in ROUGH_SLOPE else None
    for mine, other in zip(our_grads, their_grads):
        assert (mine is None) == (other is None)
        if mine is not None:
            check_equal(mine, other, strides=False, close=close)
    return second(our_grads, their_grads, our_leaves, their_leaves, close)


def second(our_grads: Any, their_grads: Any, our_leaves: Any, their_leaves: Any, close: Any) -> bool:
    """Gradients of a weighted sum of the gradients."""
    pairs = [(mine, other) for mine, other in zip(our_grads, their_grads) if other is not None and other.requires_grad]
    if not pairs:
        return True
    weights = [
        torch.randn(other.shape, dtype=other.dtype, generator=torch.Generator().manual_seed(2)) for _, other in pairs
    ]
    total = sum(abs((g * w).sum()) if g.is_complex() else (g * w).sum() for (_, g), w in zip(pairs, weights))
    try:
        their_second = torch.autograd.grad(total, their_leaves, allow_unused=True)
    except RuntimeError as error:
        if "Expected a proper Tensor but got None" not in str(error) and "is not implemented" not in str(error):
            raise
        return False
    total = None
    for (g, _), w in zip(pairs, weights):
        part = (g * to_ours(w.clone())).sum()
        part = abs(part) if g.is_complex() else part
        total = part if total is None else total + part
    if not total.requires_grad:
        assert all(other is None or not other.count_nonzero() for other in their_second)
        return True
    our_second = nt.autograd.grad(total, our_leaves, allow_unused=True)
    for mine, other in zip(our_second, their_second):
        if other is None:
            assert mine is None or not to_theirs(mine).count_nonzero()
        else:
            check_equal(mine, other, strides=False, close=close)
    return True


# Operators of which PyTorch cannot differentiate every derivative: the first gradients or, where the operator is itself
# a derivative, the second gradients of its operator compare them.
NOT_TWICE = set(
    "_native_batch_norm_legit.no_stats native_batch_norm_backward native_group_norm_backward "
    "silu_backward hardsigmoid hardsigmoid_backward mish_backward igamma igammac special_zeta multi_margin_loss "
    "multilabel_margin_loss native_layer_norm _scaled_dot_product_flash_attention_for_cpu bincount bernoulli.p "
    "scaled_dot_product_attention randint_like.low_generator_dtype remainder.Scalar_Tensor "
    "native_channel_shuffle linalg_ldl_factor special_gammainc special_gammaincc detach_copy _standard_gamma "
    "_standard_gamma_grad _sample_dirichlet _dirichlet_grad binomial linspace.Tensor_Scalar linspace.Scalar_Tensor "
    "logspace.Tensor_Scalar logspace.Scalar_Tensor "
    "arcsinh_ arccosh_ arctanh_ scatter.reduce scatter.value_reduce scatter_.reduce scatter_.value_reduce".split()
)


# What PyTorch gives for the tensor that is written into is no derivative: tests/front/test_strided.py has ours.
NOT_A_DERIVATIVE = {"aten::as_strided_scatter"}
WITH_GRADIENT = [case for case in VALUES if differentiable(case) and case["op"] not in NOT_A_DERIVATIVE]


@pytest.mark.parametrize(**operators(WITH_GRADIENT))
def test_gradient(given: list[dict[str, Any]]) -> None:
    lacks = not all(each(given, gradient))
    assert lacks == (given[0]["op"].removeprefix("aten::") in NOT_TWICE), "what PyTorch lacks stands in NOT_TWICE"


# ---- the other ways ------------------------------------------------------------------------------------------------
def fake_shape(case: dict[str, Any]) -> None:
    """The shape rule alone gives what the whole call gives."""
    args, kwargs = arguments(case)
    theirs = call_theirs(case["op"], args, kwargs)
    twin = mapped(to_ours(arguments(case)[0]), _C.TensorBase, _C.fake_like)
    if is_data_sized(case):
        with pytest.raises(_C.FakeTensorError):
            call_ours(case["op"], twin, {name: to_ours(value) for name, value in kwargs.items()})
        return
    ours = call_ours(case["op"], twin, {name: to_ours(value) for name, value in kwargs.items()})
    for mine, other in zip(parts(ours), parts(theirs), strict=True):
        check_fake(mine, other)


@pytest.mark.parametrize(**operators([case for case in GOOD if takes_tensors(case)]))
def test_fake_shape(given: list[dict[str, Any]]) -> None:
    each(given, fake_shape)


def check_fake(ours: Any, theirs: torch.Tensor) -> None:
    assert ours._is_fake
    assert (tuple(ours.shape), str(ours.dtype)) == (tuple(theirs.shape), str(theirs.dtype))
    if theirs.numel() > 1:
        meant = [d for d in range(theirs.ndim) if theirs.shape[d] > 1]
        assert [ours.stride()[d] for d in meant] == [theirs.stride()[d] for d in meant]


def out_form(case: dict[str, Any]) -> str | None:
    form = case["forms"].get("out")
    return f"aten::{form}" if form else None


def out_writes_only_its_result(case: dict[str, Any]) -> None:
    """out= lies inside a larger block whose other numbers must stay."""
    args, kwargs = arguments(case)
    torch.manual_seed(3)
    theirs = parts(call_theirs(case["op"], args, kwargs))
    blocks = [torch.full((part.numel() + 32,), 77, dtype=torch.float64).to(part.dtype) for part in theirs]
    outs = [to_ours(block[16 : 16 + part.numel()].view(part.shape)) for block, part in zip(blocks, theirs)]
    known = {row.strip(" )").split("=")[0].split()[-1] for row in _C.op_info(out_form(case))["schema"].split(",")}
    ours = {name: to_ours(value) for name, value in kwargs.items() if name in known}  # a factory's options are out's
    nt.manual_seed(3)
    result = call_ours(out_form(case), to_ours(arguments(case)[0]), {**ours, **dict(zip(case["outs"], outs))})
    for written, out, part, block in zip(parts(result), outs, theirs, blocks, strict=True):
        assert written is out
        check_equal(out, part, strides=False, close=case["close"])
        guard = torch.full((16,), 77, dtype=torch.float64).to(part.dtype)
        assert torch.equal(block[:16], guard) and torch.equal(block[-16:], guard)


@pytest.mark.parametrize(**operators([case for case in VALUES if out_form(case)]))
def test_out_form_writes_only_its_result(given: list[dict[str, Any]]) -> None:
    each(given, out_writes_only_its_result)


def inplace_form(name: str) -> str | None:
    return INPLACE_FORMS.get(name)


def in_place(case: dict[str, Any]) -> None:
    """In place, PyTorch and Narthex give the same result or both refuse."""
    args, kwargs = arguments(case)
    twin = to_ours(arguments(case)[0])
    form = inplace_form(case["op"])
    try:
        call_theirs(form, args, kwargs)
    except RuntimeError:
        with pytest.raises(RuntimeError):
            call_ours(form, twin, {k: to_ours(v) for k, v in kwargs.items()})
        return
    version = twin[0]._version
    result = call_ours(form, twin, {k: to_ours(v) for k, v in kwargs.items()})
    assert result is twin[0] and result._version == version + 1
    check_equal(result, args[0])


@pytest.mark.parametrize(**operators([case for case in VALUES if inplace_form(case["op"])]))
def test_inplace_form(given: list[dict[str, Any]]) -> None:
    each(given, in_place)


def on_npu(case: dict[str, Any]) -> None:
    """The device gives the CPU's numbers, without falling back."""
    args, kwargs = arguments(case)
    npu = mapped(to_ours(args), _C.TensorBase, lambda value: value.to("npu:0"))
    cpu = mapped(npu, _C.TensorBase, lambda value: value.to("cpu"))  # in the memory order of npu's
    ours = {name: to_ours(value) for name, value in kwargs.items()}
    far_ours = {name: mapped(value, _C.TensorBase, lambda tensor: tensor.to("npu:0")) for name, value in ours.items()}
    is_factory = not any(isinstance(value, _C.TensorBase) for value in flat(npu))
    _C.fallbacks_clear()
    there = call_ours(case["op"], npu, {**far_ours, "device": "npu:0"} if is_factory else far_ours)
    here = call_ours(case["op"], cpu, ours)
    assert not _C.fallbacks()
    for far, near in zip(parts(there), parts(here), strict=True):
        assert str(far.device) == "npu:0" and tuple(far.shape) == tuple(near.shape) and far.dtype == near.dtype
        check_equal(far.to("cpu"), to_theirs(near), strides=False, exact=True)


@pytest.mark.parametrize(**operators([case for case in VALUES if not case["random"]]))
def test_npu(given: list[dict[str, Any]]) -> None:
    each(given, on_npu)


def compiled(case: dict[str, Any]) -> None:
    """A graph of this one call gives eager's numbers in both modes; written arguments are written."""
    eager, kwargs = (to_ours(value) for value in arguments(case))
    ours = {name: to_ours(value) for name, value in kwargs.items()}
    expected = call_ours(case["op"], eager, ours)
    packet, overload = (case["op"].removeprefix("aten::") + ".default").split(".")[:2]
    operator = getattr(getattr(nt.ops.aten, packet), overload)
    for mode in ("max-autotune", "reduce-overhead"):
        twin = to_ours(arguments(case)[0])
        function = nt.compile(lambda *tensors: operator(*tensors, **ours), mode=mode, fullgraph=True)
        if base_of(case).startswith("_fused_"):  # an optimizer's step writes lists, which a graph cannot yet
            with pytest.raises(_C.Unsupported, match="it writes several tensors"):
                function(*twin)
        elif base_of(case).startswith("as_strided") and len(case["args"]) - base_of(case).endswith("_scatter") > 3:
            with pytest.raises(_C.Unsupported, match="storage_offset counts from the start of memory"):
                function(*twin)
        elif is_data_sized(case) and base_of(case) not in DECIDED:
            with pytest.raises(_C.Unsupported, match="the elements of a tensor"):
                function(*twin)
        else:
            got = [*parts(function(*twin)), *tensors_of(twin)]
            for mine, other in zip(got, [*parts(expected), *tensors_of(eager)], strict=True):
                check_equal(mine, to_theirs(other), exact=True)


def tensors_of(args: list[Any]) -> list[Any]:
    return [arg for arg in flat(args) if isinstance(arg, _C.TensorBase)]


@pytest.mark.parametrize(**operators([case for case in VALUES if takes_tensors(case) and not case["random"]]))
def test_compiled(given: list[dict[str, Any]]) -> None:
    each(given, compiled)
