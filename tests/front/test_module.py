"""nn.Module: registration, walking, state, hooks, moving."""

import copy

import narthex as nt
import pytest
from narthex import nn


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(nt.tensor([[1.0, 2.0], [3.0, 4.0]]))
        self.register_buffer("offset", nt.tensor([10.0, 20.0]))
        self.register_buffer("scratch", nt.tensor([0.0]), persistent=False)

    def forward(self, x):
        return nn.functional.linear(x, self.weight, self.offset)


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()
        self.tail = nn.Sequential(nn.Identity(), nn.Identity())

    def forward(self, x):
        return self.tail(self.inner(x))


def test_registration_and_walking():
    model = Outer()
    assert [name for name, _ in model.named_parameters()] == ["inner.weight"]
    assert [name for name, _ in model.named_buffers()] == ["inner.offset", "inner.scratch"]
    assert [name for name, _ in model.named_modules()] == ["", "inner", "tail", "tail.0", "tail.1"]
    assert list(model.state_dict()) == ["inner.weight", "inner.offset"]
    assert model.get_submodule("tail.1") is model.tail[1] and len(model.tail) == 2
    assert repr(model).startswith("Outer(\n  (inner): Inner()\n  (tail): Sequential(\n    (0): Identity()")
    assert model(nt.tensor([[1.0, 1.0]])).tolist() == [[13.0, 27.0]]
    del model.inner.offset
    with pytest.raises(AttributeError, match="'Inner' object has no attribute 'offset'"):
        model.inner.offset  # noqa: B018


def test_wrong_assignments():
    model = Inner()
    with pytest.raises(TypeError, match="as parameter 'weight'"):
        model.weight = 3
    with pytest.raises(KeyError, match="already exists"):
        model.register_buffer("forward", nt.tensor([0.0]))
    with pytest.raises(KeyError, match='contain "[.]"'):
        model.register_parameter("a.b", None)

    class Forgets(nn.Module):
        def __init__(self):
            self.part = nn.Identity()

    with pytest.raises(AttributeError, match=r"before Module.__init__\(\) call"):
        Forgets()
    with pytest.raises(NotImplementedError, match='missing the required "forward" function'):
        nn.Module()(1)


def test_state_dict_round_trip():
    first, second = Outer(), Outer()
    with nt.no_grad():
        first.inner.weight.mul_(2)
    assert second.load_state_dict(first.state_dict()).missing_keys == []
    assert second.inner.weight.tolist() == [[2.0, 4.0], [6.0, 8.0]]
    with pytest.raises(RuntimeError, match="Missing key.*inner.offset"):
        second.load_state_dict({"inner.weight": first.inner.weight})
    with pytest.raises(RuntimeError, match="size mismatch for inner.offset"):
        second.load_state_dict({**first.state_dict(), "inner.offset": nt.tensor([1.0])})
    assert second.load_state_dict({}, strict=False).missing_keys == ["inner.weight", "inner.offset"]


def test_modes_and_grads():
    model = Outer()
    assert model.eval().training is False and model.inner.training is False and model.train().tail[0].training
    model(nt.tensor([[1.0, 2.0]])).sum().backward()
    assert model.inner.weight.grad.tolist() == [[1.0, 2.0], [1.0, 2.0]]
    model.zero_grad()
    assert model.inner.weight.grad is None
    model.requires_grad_(False)
    assert not model(nt.tensor([[1.0, 2.0]])).requires_grad


def test_hooks():
    model, seen = Inner(), []
    before = model.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    after = model.register_forward_hook(lambda module, args, result: seen.append(result.tolist()))
    x = nt.tensor([[1.0, 0.0]])
    assert model(x).tolist() == [[12.0, 26.0]] and seen == [[[12.0, 26.0]]]
    before.remove()
    after.remove()
    assert model(x).tolist() == [[11.0, 23.0]] and len(seen) == 1


def test_moving_keeps_parameters():
    model = Outer()
    weight = model.inner.weight
    model.double()
    assert model.inner.weight is weight and weight.dtype is nt.float64 and model.inner.offset.dtype is nt.float64
    assert weight.requires_grad and isinstance(weight, nn.Parameter)
    with pytest.raises(TypeError, match="floating point or complex dtypes"):
        model.to(nt.int64)


def test_deepcopy():
    model = Outer()
    other = copy.deepcopy(model)
    with nt.no_grad():
        other.inner.weight.zero_()
    assert model.inner.weight.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert isinstance(other.inner.weight, nn.Parameter) and other.inner.weight.requires_grad


def test_containers():
    parts = nn.ModuleList([nn.Identity()])
    parts.append(Inner())
    assert (
        len(parts) == 2 and isinstance(parts[-1], Inner) and [name for name, _ in parts.named_children()] == ["0", "1"]
    )
    with pytest.raises(IndexError, match="out of range"):
        parts[2]
