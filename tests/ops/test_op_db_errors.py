"""Bad calls: PyTorch's own (op_db's error_inputs) of every operator that Narthex has. Narthex raises what PyTorch
raises: the same type, and a text in which PyTorch's stands; where it does not, the table says why.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

from tests.ops.op_db import Other, function_of, identity, over

OPS = [op for op in op_db if function_of(op) is not None and op.error_inputs_func is not None]
# Of an entry: what PyTorch's text of the call begins with or has in it, and why ours is another or the call goes well.
FORMS = "one overload in Python: the text names the argument that does not fit"
NUMBERS = "numbers stand for tensors: the operator is reached with two"
TENSORS = "a tensor as a number is refused by its type"
SHORTER = "our text says the same in other words"
OVERLAP = "an out= that overlaps an input is not refused"
METHOD = "the reflected operator itself is called there, `2 + x` here"
DEEP = "PyTorch makes tensors of 65 dimensions, Narthex up to 32"
DIFFERENT: dict[str, list[tuple[str, str]]] = {
    "aminmax": [
        ("over an empty dimension", SHORTER),
        ("up to 64 dims", DEEP),
        ("Expected out tensor", "it has no out="),
        ("Expected reduction dim", SHORTER),
    ],
    "copysign": [("got (int, Tensor)", FORMS), ("got (int, int)", FORMS)],
    "gradient": [("each tensor to be on the same device", "there are no tensors on meta")],
    "hsplit": [("got (Tensor, str)", FORMS)],
    "vsplit": [("got (Tensor, str)", FORMS)],
    "kthvalue": [("unsupported operation: some elements", OVERLAP)],
    "take": [("unsupported operation: some elements", OVERLAP)],
    "logspace": [("got (int, int, float)", FORMS)],
    "logspace.tensor_overload": [("got (int, int, float)", FORMS)],
    "narrow_copy": [("Expected dim <", SHORTER), ("exceeds dimension size", SHORTER)],
    "sum_to_size": [("is not expandable to size", SHORTER)],
    "arange": [("step must be nonzero", "RuntimeError as of PyTorch's kernel; PyTorch's front says ValueError")],
    "bitwise_left_shift": [("got (int, int)", NUMBERS)],
    "bitwise_right_shift": [("got (int, int)", NUMBERS)],
    "remainder": [("got (int, int)", NUMBERS)],
    "fmod": [("got (int, Tensor)", FORMS), ("got (int, int)", FORMS)],
    "rsub": [("got (int, Tensor)", FORMS), ("got (int, int)", FORMS)],
    "dot": [("expected both vectors to have same dtype", SHORTER)],
    "narrow": [("start must be an 0-dim integral Tensor", TENSORS)],
    "masked_select": [("unsupported operation: some elements", OVERLAP)],
    "gather": [("Size does not match", SHORTER), ("unsupported operation: some elements", OVERLAP)],
    "cat": [("unsupported operation: some elements", OVERLAP), ("in argument 0, but got NoneType", SHORTER)],
    "native_layer_norm": [("Expected normalized_shape", SHORTER), ("of same shape as normalized_shape", SHORTER)],
    "nn.functional.rms_norm": [("Expected normalized_shape", SHORTER), ("Given normalized_shape", SHORTER)],
    "neg": [("Negation, the `-` operator", "NotImplementedError, which is a RuntimeError, as of any other dtype")],
    "scatter": [("Expected self.dtype to be equal to src.dtype", SHORTER)],
    "scatter_add": [("Expected self.dtype to be equal to src.dtype", SHORTER)],
    "multinomial": [
        ("multinomial expects Long tensor out", SHORTER),
        ("number of categories cannot exceed 2^24", "the zeros that PyTorch gives are refused first"),
        ("encountering probability entry", "the text that PyTorch has for two dimensions"),
    ],
    "movedim": [("repeated dim in", SHORTER)],
    "amax": [("dim", DEEP), ("Expected the dtype for input and out to match", SHORTER)],
    "amin": [("dim", DEEP), ("Expected the dtype for input and out to match", SHORTER)],
    "mean": [("could not infer output dtype", SHORTER)],
    "vdot": [("dot : expected both vectors to have same", SHORTER)],
    "complex": [("Expected object of scalar type ComplexDouble but got scalar", "out= is converted")],
    "masked_fill": [("value cannot be converted to type int", "a number that the dtype cannot hold is wrapped")],
    "nn.functional.adaptive_avg_pool1d": [
        ("adaptive_avg_pool", "an empty size is taken"),
        ("elements of output_size must be greater than or equal to", SHORTER),
    ],
    "nn.functional.adaptive_avg_pool2d": [("elements of output_size must be greater than or equal to", SHORTER)],
    "nn.functional.adaptive_avg_pool3d": [("elements of output_size must be greater than or equal to", SHORTER)],
    "nn.functional.adaptive_max_pool1d": [
        ("adaptive_max_pool", "an empty size is taken"),
        ("Trying to create tensor with negative dimension -", SHORTER),
    ],
    "nn.functional.adaptive_max_pool2d": [
        ("internal error", SHORTER),
        ("Trying to create tensor with negative dimension -", SHORTER),
    ],
    "nn.functional.adaptive_max_pool3d": [
        ("internal error", SHORTER),
        ("Trying to create tensor with negative dimension -", SHORTER),
    ],
    "nn.functional.avg_pool3d": [
        ("pad must be non-negative", SHORTER),
        ("pad should be at most half of effective kernel size", SHORTER),
    ],
    "nn.functional.conv1d": [("Input type", SHORTER)],
    "nn.functional.conv2d": [
        ("Input type", SHORTER),
        ("Expected", SHORTER),
    ],
    "nn.functional.conv3d": [
        ("Input type", SHORTER),
        ("Expected", SHORTER),
    ],
    "nn.functional.soft_margin_loss": [("The size of tensor a", SHORTER)],
    "nn.functional.multi_margin_loss": [
        ("target tensor should be", SHORTER),
        ("expected scalar type Long but found Float", SHORTER),
    ],
    "nn.functional.avg_pool2d": [
        ("pad must be non-negative", SHORTER),
        ("pad should be at most half of effective kernel size", SHORTER),
    ],
    "nn.functional.max_pool1d": [
        ("Expected", SHORTER),
        ("max_pool", SHORTER),
    ],
    "nn.functional.max_pool2d": [
        ("pad must be non-negative", SHORTER),
        ("pad should be at most half of effective kernel size", SHORTER),
        ("Expected", SHORTER),
    ],
    "nn.functional.max_pool3d": [
        ("pad must be non-negative", SHORTER),
        ("pad should be at most half of effective kernel size", SHORTER),
        ("Expected input's non-batch dimensions to have positive lengt", SHORTER),
    ],
    "nn.functional.max_unpool1d": [("Expected shape of indices to be same as that of the input te", SHORTER)],
    "nn.functional.max_unpool2d": [("Expected shape of indices to be same as that of the input te", SHORTER)],
    "nn.functional.max_unpool3d": [("Expected shape of indices to be same as that of the input te", SHORTER)],
    "nn.functional.softshrink": [("lambda must be in range", SHORTER)],
    "bernoulli": [("unsupported operation", FORMS)],
    **{name: [("doesn't apply to a 'int' object", METHOD)] for name in ("__radd__", "__rmul__", "__rand__")},
    **{name: [("doesn't apply to a 'int' object", METHOD)] for name in ("__ror__", "__rxor__")},
}


def raised(function: Any, args: Any, keywords: Any) -> Exception | None:
    try:
        function(*args, **keywords)
    except Exception as error:
        return error
    return None


def plain(text: str) -> str:
    """Without the operator that Narthex names first, and blanks as they come."""
    return " ".join(re.sub(r"^(aten::)?[\w.]+(\(\))?: ", "", text.split("\n")[0]).split())


def differences(op: Any) -> tuple[int, list[tuple[str, str]]]:
    """How many calls there are; PyTorch's text and what is wrong, of each that does not raise what PyTorch raises."""
    found, n_calls = [], 0
    for given in op.error_inputs("cpu"):
        sample = given.sample_input
        there = raised(op.op, [sample.input, *sample.args], sample.kwargs)
        if there is None:
            continue
        n_calls += 1
        try:
            args, keywords = over(([sample.input, *sample.args], dict(sample.kwargs)))
        except Other:
            continue
        except (RuntimeError, BufferError) as error:  # a tensor that Narthex cannot have
            found.append((plain(str(there)), str(error)))
            continue
        here = raised(function_of(op), args, keywords)
        wanted = plain(str(there))
        if here is None:
            found.append((wanted, "it raises nothing"))
        elif not isinstance(here, type(there)):
            found.append((wanted, f"{type(there).__name__}, not {type(here).__name__}: {here}"))
        elif wanted.rstrip(".") not in " ".join(str(here).split()):
            found.append((wanted, f"another text: {here}"))
    return n_calls, found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("op", OPS, ids=identity)
def test_errors_are_pytorchs(op: Any, record_property: Any) -> None:
    torch.manual_seed(0)
    rows = DIFFERENT.get(identity(op), [])
    n_calls, found = differences(op)
    record_property("op_db_errors", [n_calls, len(found)])
    unexpected = [(text, what) for text, what in found if not any(part in text for part, _ in rows)]
    assert not unexpected, "\n".join(f"{text}\n    {what}" for text, what in unexpected)
    stale = [part for part, _ in rows if not any(part in text for text, _ in found)]
    assert not stale, f"these are PyTorch's now, take them out of DIFFERENT: {stale}"


def test_the_table_names_entries_that_are_there() -> None:
    assert set(DIFFERENT) <= {identity(op) for op in OPS}
