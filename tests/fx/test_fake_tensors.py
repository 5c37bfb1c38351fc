"""Fake tensors beside PyTorch's: shapes are computed, elements are not there."""

from typing import Any

import narthex as nt
import pytest
import torch
from narthex._functorch.aot_autograd import aot_function, make_boxed_func
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

BOTH = (
    (nt, nt._subclasses.fake_tensor.FakeTensor, nt._subclasses.fake_tensor.FakeTensorMode, nt._guards.detect_fake_mode),
    (torch, FakeTensor, FakeTensorMode, detect_fake_mode),
)


@pytest.mark.parametrize(("m", "kind", "mode", "detect"), BOTH, ids=["ours", "theirs"])
def test_modes(m: Any, kind: type, mode: Any, detect: Any) -> None:
    real = m.ones(2, 3)
    with mode() as inside:
        made = m.zeros(4, 2)
        result = (made @ inside.from_tensor(real)).sum(0)
        assert detect() is not None
    assert isinstance(made, kind) and tuple(result.shape) == (3,) and result.dtype == m.float32
    assert not isinstance(real, kind) and not isinstance(m.ones(1), kind)
    assert detect([real]) is None and detect([real, [made]]) is not None
    with inside, pytest.raises(Exception, match="item|_local_scalar_dense"):
        result.sum().item()
    assert m.ones(1).item() == 1


@pytest.mark.parametrize(("m", "kind", "mode", "detect"), BOTH, ids=["ours", "theirs"])
def test_a_fake_is_like_its_tensor(m: Any, kind: type, mode: Any, detect: Any) -> None:
    real = m.ones(3, 2, dtype=m.float64, requires_grad=True).t()
    fake = mode().from_tensor(real.detach().requires_grad_())
    assert (tuple(fake.shape), fake.stride(), fake.dtype, fake.requires_grad) == ((2, 3), (1, 2), m.float64, True)
    assert str(fake.device) == "cpu" and mode().from_tensor(fake) is not None


def test_compilers_get_fake_tensors() -> None:
    seen: list = []

    def compiler(gm: Any, inputs: list) -> Any:
        seen.extend(isinstance(value, BOTH[0][1]) for value in inputs)
        return make_boxed_func(gm.forward)

    aot_function(lambda x: x * 2, fw_compiler=compiler)(nt.ones(2))
    assert seen == [True]


def test_what_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="shape_env"):
        BOTH[0][2](shape_env=object())
    with pytest.raises(TypeError, match="expected a tensor"):
        BOTH[0][2]().from_tensor(3)
    with pytest.raises(NotImplementedError, match="FakeTensorMode"):
        BOTH[0][1](1)
