"""Second names: as functions, as methods, and as methods that write."""

import narthex as nt
import pytest
import torch
from narthex._aliases import WRITING

from tests.front.both import close, over

TWO = ("arctan2", "divide", "greater", "greater_equal", "less", "less_equal", "multiply", "not_equal", "subtract",
       "true_divide")  # fmt: skip


ONE = ("absolute", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "fix", "negative")


@pytest.mark.parametrize("name", ONE + TWO)
def test_alias(name):
    x = torch.tensor([1.5, 1.25, 3.0]) if name == "arccosh" else torch.tensor([0.5, -0.25, 0.75])
    other = (torch.tensor([0.5, 2.0, -1.0]),) if name in TWO else ()
    ours = tuple(map(over, other))
    close(getattr(nt, name)(over(x), *ours), getattr(torch, name)(x, *other))
    close(getattr(over(x), name)(*ours), getattr(x, name)(*other))
    close(getattr(over(x), name + "_")(*ours), getattr(x.clone(), name + "_")(*other))
    op, theirs = (getattr(library.ops.aten, name) for library in (nt, torch))
    overload = "Tensor" if other and name != "arctan2" else "default"
    close(getattr(op, overload)(over(x), *ours), getattr(theirs, overload)(x, *other))


@pytest.mark.parametrize(
    "name", [n for n in WRITING if not n.startswith(("clip", "clamp", "index", "gcd", "lcm", "xlog"))]
)
def test_function_that_writes(name):
    x = torch.tensor([1.5, 1.25, 3.0]) if "cosh" in name else torch.tensor([0.5, 0.25, 0.75])
    mine = over(x)
    assert getattr(nt, name)(mine) is mine
    close(mine, getattr(torch, name)(x.clone()))


def test_row_stack():
    x = torch.arange(3.0)
    close(nt.row_stack([over(x), over(x)]), torch.row_stack([x, x]))


def test_special_has_pytorchs_names():
    assert set(torch.special.__all__) == set(nt.special.__all__)
