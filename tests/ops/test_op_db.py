"""Every operator that Narthex has under a name of PyTorch's, on the samples that PyTorch tests its own with (op_db).

Values, and gradients of floats; random operators from the same seed. A sample that asks for what is not there must
raise NotImplementedError; `OVERLOADS` lists the operators some of whose forms are no overload of ours yet (TypeError).
"""

import narthex as nt
import pytest
import torch
from narthex import _C
from torch.testing._internal.common_methods_invocations import op_db

DTYPES = (torch.float32, torch.int64, torch.bool, torch.bfloat16)
MOST = 8  # samples of a dtype
SEED = 42  # op_db's random operators set it themselves

# Called with other arguments than op_db's own order, or not in place on a leaf.
CALLS = {
    "where": lambda x, condition, other: nt.where(condition, x, other),
    "nn.functional.embedding": lambda weight, at, **options: nt.nn.functional.embedding(at, weight, **options),
}
OVERLOADS = {
    "linspace.tensor_overload": "a tensor as start or end",
    "div.floor_rounding": "rounding_mode",
    "div.trunc_rounding": "rounding_mode",
    "masked_fill": "a tensor as value",
    "narrow": "a tensor as start",
    "pow": "a tensor as exponent",
    "repeat_interleave": "a tensor as repeats",
    "scatter": "reduce",
    "squeeze": "without dim",
    "squeeze.multiple": "several dims",
    "tensor_split": "a tensor as indices",
}
# What is wrong, until it is mended.
WRONG = {"div.trunc_rounding": "PyTorch rounds the quotient of two halves before it cuts it off, we after"}
# Elements that are equal may come in any order: only dtypes without them are compared.
TIES = ("sort", "argsort", "topk")
# What differs, and why it may.
APART = {
    "arange": "a float start with an integer dtype is counted in floats by PyTorch, after truncation by us",
    "zero_": "op_db writes leaves that require grad",
    "native_layer_norm": "mean and rstd have no gradient",
}
NO_VALUES = ("empty", "empty_like", "new_empty")


def find(name):
    """Narthex's function of that name, None if there is none."""
    value = nt
    for part in name.split("."):
        try:
            value = getattr(value, part)
        except (AttributeError, NotImplementedError):
            return None
    return None if isinstance(value, (type, nt.dtype)) else value


def identity(op):
    """`div.floor_rounding`"""
    return op.name + ("." + op.variant_test_name if op.variant_test_name else "")


class Other(Exception):
    """A sample with something that has no counterpart in Narthex at all."""


def over(value):
    """`value` with Narthex's tensors over the same memory."""
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided or value.dtype.is_complex or value.is_neg():
            raise Other
        made = _C.from_dlpack(torch._C._to_dlpack(value))
        return made.requires_grad_() if value.requires_grad else made
    if isinstance(value, (torch.dtype, torch.memory_format, torch.layout)):
        name = str(value).rpartition(".")[2]
        if not hasattr(nt, name):
            raise Other
        return getattr(nt, name)
    if isinstance(value, torch.device):
        return nt.device(str(value))
    if isinstance(value, (list, tuple)):
        return (list if isinstance(value, list) else tuple)(map(over, value))
    if value is None or isinstance(value, (bool, int, float, str, slice)) or value is Ellipsis:
        return value
    raise Other


def tensors(value):
    """The tensors in `value`, in order."""
    if isinstance(value, (torch.Tensor, _C.TensorBase)):
        return [value]
    values = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [tensor for item in values for tensor in tensors(item)]


def close(mine, theirs, **tolerance):
    torch.testing.assert_close(
        torch.from_dlpack(mine.detach()), theirs.detach(), equal_nan=True, check_stride=False, **tolerance
    )


def check_gradients(given, given_here, theirs, mine):
    """Gradients of all outputs that have one, for the same random weights."""
    at = [k for k, tensor in enumerate(theirs) if tensor.requires_grad]
    inputs = [k for k, tensor in enumerate(given) if tensor.requires_grad]
    assert [k for k, tensor in enumerate(mine) if tensor.requires_grad] == at
    if not at:
        return
    weights = [torch.randn(theirs[k].shape, dtype=theirs[k].dtype) for k in at]
    expected = torch.autograd.grad([theirs[k] for k in at], [given[k] for k in inputs], weights, allow_unused=True)
    outputs, leaves = [mine[k] for k in at], [given_here[k] for k in inputs]
    found = nt.autograd.grad(outputs, leaves, list(map(over, weights)), allow_unused=True)
    for ours, wanted in zip(found, expected):
        if ours is None or wanted is None:  # PyTorch and we may each say zero by None
            other = wanted if ours is None else torch.from_dlpack(ours)
            assert other is None or not other.any()
        else:
            close(ours, wanted, rtol=1e-3, atol=1e-4)


def check_sample(op, function, sample, dtype):
    """0: it is not there; 1: checked."""
    arguments = [over(sample.input), *map(over, sample.args)]
    keywords = {name: over(value) for name, value in sample.kwargs.items()}
    torch.manual_seed(SEED)
    try:
        theirs = tensors(op.op(sample.input, *sample.args, **sample.kwargs))
    except RuntimeError:
        return 0  # PyTorch does not have it for the CPU either
    nt.manual_seed(SEED)
    try:
        mine = tensors(function(*arguments, **keywords))
    except NotImplementedError:
        return 0
    except TypeError:
        if identity(op) in OVERLOADS:
            return 0
        raise
    assert len(mine) == len(theirs)
    half = {"rtol": 1.6e-2, "atol": 1e-2} if dtype in (torch.bfloat16, torch.float16) else {}
    if dtype == torch.float32:
        half = {"rtol": 1e-4, "atol": 5e-5}
    for ours, wanted in zip(mine, theirs):
        if op.name not in NO_VALUES:
            close(ours, wanted, **half)
        assert tuple(ours.shape) == tuple(wanted.shape) and str(ours.dtype) == str(wanted.dtype)
    given = tensors([sample.input, sample.args, sample.kwargs])
    given_here = tensors([arguments, keywords])
    if dtype in (torch.float32, torch.float64) and op.supports_autograd:
        check_gradients(given, given_here, theirs, mine)
    return 1


OPS = [op for op in op_db if find(op.name) is not None and op.name not in APART]


def marked(op):
    """`op` as a parameter; expected to fail where it is known to be wrong."""
    name = identity(op)
    marks = pytest.mark.xfail(reason=WRONG[name], strict=True) if name in WRONG else ()
    return pytest.param(op, marks=marks)


def test_most_names_are_found():
    assert len(OPS) > 80


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("op", list(map(marked, OPS)), ids=identity)
def test_op_db(op):
    function = CALLS.get(op.name) or find(op.name)
    checked = there = 0
    for dtype in DTYPES:
        if dtype not in op.supported_dtypes("cpu") or (op.name in TIES and dtype != torch.float32):
            continue
        wants = dtype in (torch.float32, torch.float64) and op.supports_autograd
        torch.manual_seed(0)
        for sample, _ in zip(op.sample_inputs("cpu", dtype, requires_grad=wants), range(MOST)):
            try:
                checked += check_sample(op, function, sample, dtype)
                there += 1
            except Other:
                continue
            except Exception as error:
                error.add_note(
                    f"{identity(op)} of {dtype}: {sample.summary() if hasattr(sample, 'summary') else sample}"
                )
                raise
    if not checked:
        pytest.skip(f"none of {there} samples: {OVERLOADS.get(identity(op), 'not implemented')}")
