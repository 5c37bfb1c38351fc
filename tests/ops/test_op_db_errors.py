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
METHOD = "the reflected operator itself is called there, `2 + x` here"
DEEP = "PyTorch makes tensors of 65 dimensions, Narthex up to 32"
DIFFERENT: dict[str, list[tuple[str, str]]] = {
    "aminmax": [("up to 64 dims", DEEP)],
    "amax": [("dim", DEEP)],
    "amin": [("dim", DEEP)],
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
            args, keywords = over(([sample.input, *sample.args], dict(sample.kwargs)), {})
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
