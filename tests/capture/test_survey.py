"""The idioms of survey.py: one graph with fullgraph=True, with eager's result at several calls, but those of ENDS,
which end a graph and go on with eager's result. The run prints the count and what ends, with the reason."""

import narthex as torch
import pytest
from narthex import _C

from . import survey
from .conftest import same

NATURE = "by nature: "
ENDS = {
    "print": NATURE + "writes text",
    "time.time": NATURE + "asks the clock",
    "random.random": NATURE + "draws from Python's own generator",
    "random.choice": NATURE + "draws from Python's own generator",
    "np.random": NATURE + "draws from numpy's generator",
    "torch.Generator arg": NATURE + "makes a generator",
    "torch.manual_seed": NATURE + "seeds a generator",
    "x.data_ptr()": NATURE + "asks for an address",
}
NAMES = [row.split("|", 1)[0] for row in survey.ROWS]
CHANGES = {"nn.Linear made inside", "torch.Generator arg", "random.random", "np.random", "time.time"}  # at each call


def function_of(row):
    space = dict(vars(survey))
    exec(f"def function(x):\n    return {row.split('|', 1)[1]}", space)
    return space["function"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("row", survey.ROWS, ids=NAMES)
def test_idiom(row, record_property):
    name = row.split("|", 1)[0]
    record_property("survey", (name, ENDS.get(name, "")))
    function, x = function_of(row), torch.ones(2, 2)
    expected = function(x.clone())
    if name in ENDS:
        with pytest.raises(_C.Unsupported, match="how to mend it"):
            torch.compile(function, fullgraph=True, backend="eager")(x.clone())
    compiled = torch.compile(function, fullgraph=name not in ENDS, backend="eager")
    for _ in range(2):
        found = compiled(x.clone())
        assert type(found) is type(expected)
        if isinstance(found, torch.Tensor) and name not in CHANGES:
            assert same(found.detach(), expected.detach()) and found.requires_grad is expected.requires_grad


def test_the_list_is_true():
    assert len(NAMES) == len(set(NAMES)) == 279 and set(NAMES) >= ENDS.keys() and set(NAMES) >= CHANGES
