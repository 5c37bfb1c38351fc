"""torch.Size and what *_like takes, beside PyTorch."""

from typing import Any

import narthex as nt
import pytest
import torch

BOTH = (torch, nt)
OPERATIONS = {
    "slice": lambda s: s[1:],
    "backwards": lambda s: s[::-1],
    "nothing": lambda s: s[0:0],
    "and a tuple": lambda s: s + (1,),
    "a tuple and": lambda s: (1, 2) + s,
    "twice": lambda s: s * 2,
    "twice, from the left": lambda s: 2 * s,
    "never": lambda s: s * -1,
}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_parts_and_sums_are_sizes(operation: Any) -> None:
    theirs, ours = (operation(m.ones(2, 3, 4).shape) for m in BOTH)
    assert isinstance(ours, nt.Size) and isinstance(theirs, torch.Size)
    assert tuple(ours) == tuple(theirs) and ours.numel() == theirs.numel()


def test_what_no_size_can_hold() -> None:
    for m in BOTH:
        size = m.ones(2, 3).shape
        with pytest.raises(TypeError, match=r"torch.Size\(\) takes an iterable of 'int' \(item 2 is 'str'\)"):
            size + ("a",)
        with pytest.raises(TypeError, match="can only concatenate tuple"):
            size + [1]
        with pytest.raises(TypeError, match="can't multiply sequence by non-int"):
            size * 1.5
        assert size[0] == 2 and size[-1] == 3 and size == (2, 3) and hash(size) == hash((2, 3))


LIKE = ("zeros_like", "ones_like", "empty_like", "rand_like", "randn_like")


@pytest.mark.parametrize("name", LIKE)
def test_what_is_made_like_another_may_require_gradients(name: str) -> None:
    for m in BOTH:
        made = getattr(m, name)(m.ones(2), requires_grad=True)
        assert made.requires_grad and made.is_leaf
        with pytest.raises(TypeError, match="requires_grad"):
            m.clone(m.ones(2), requires_grad=True)


def test_sizes_in_compiled_functions() -> None:
    function = nt.compile(
        lambda x: x.reshape(x.shape[:-1] + (2, -1)).sum(-1) + x.view(*x.shape[:1], -1)[0, 0] * x.shape.numel(),
        fullgraph=True,
    )
    for n in (4, 6, 8, 4):
        assert function(nt.ones(2, n)).tolist() == [[n / 2 + 2 * n] * 2] * 2
