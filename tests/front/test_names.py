"""PyTorch's public names: docs/names.md says which are not there, and no fewer are there than before."""

import pytest

from tests.names import PAGE, SPACES, absent, public

LEAST = {"torch": 450, "torch.Tensor": 490, "torch.special": 56}


@pytest.mark.parametrize("space", SPACES)
def test_the_page_names_what_is_absent(space):
    listed = PAGE.read_text().partition(f"## `{space}`\n")[2].partition("\n## ")[0]
    for name in absent(space):
        assert f"`{name}`" in listed, f"{space}.{name} is not in docs/names.md: python -m tests.names"


@pytest.mark.parametrize("space", SPACES)
def test_as_many_as_before(space):
    assert len(public(SPACES[space][0])) - len(absent(space)) >= LEAST[space]
