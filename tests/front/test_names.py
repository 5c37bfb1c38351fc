"""PyTorch's public names: docs/names.md says which are not there, and no fewer are there than before."""

import pytest

from tests.names import PAGE, SPACES, absent, public

# No more than these are absent; of a space that is not listed, none.
MOST = {
    "torch": 197, "torch:Tensor": 12, "torch.sparse": 5,
    "torch.nn.functional": 5, "torch.autograd": 1, "torch.autograd.forward_ad": 6,
    "torch.autograd.function": 2, "torch.autograd.profiler": 2, "torch.utils": 3, "torch.utils.benchmark": 9,
    "torch.utils.checkpoint": 1,
    "torch.export": 4, "torch.compiler": 2, "torch._dynamo": 9,
    "torch.nn.parallel": 1, "torch.utils.data": 6,  # names that are there and raise, which count as absent
}  # fmt: skip


@pytest.mark.parametrize("space", SPACES)
def test_the_page_names_what_is_absent(space):
    listed = PAGE.read_text().partition(f"## `{space.replace(':', '.')}`\n")[2].partition("\n## ")[0]
    for name in absent(space):
        assert f"`{name}`" in listed, f"{space}.{name} is not in docs/names.md: python -m tests.names"


@pytest.mark.parametrize("space", SPACES)
def test_as_many_as_before(space, record_property):
    gone, there = len(absent(space)), len(public(space))
    record_property("names", [space, there - gone, there])
    assert gone <= MOST.get(space, 0)
    assert there
