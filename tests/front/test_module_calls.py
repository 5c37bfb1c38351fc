"""Calling modules and reading their attributes: what C code does quickly, a subclass may change, as in PyTorch."""

import collections
import copy
import pickle

import narthex as nt
import pytest
import torch

BOTH = pytest.mark.parametrize("lib", [nt, torch], ids=["narthex", "pytorch"])


class Saved(nt.nn.Linear):
    def forward(self, x):
        return super().forward(x) + 1


@BOTH
def test_arguments_reach_forward(lib):
    class Pairs(lib.nn.Module):
        def forward(self, *args, **kwargs):
            return args, kwargs

    assert Pairs()() == ((), {}) and Pairs()(1, b=2) == ((1,), {"b": 2})
    assert Pairs()(*range(20), c=3) == (tuple(range(20)), {"c": 3})
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        lib.nn.Identity()()


@BOTH
def test_who_overrides_is_asked(lib):
    class Fallback(lib.nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def __getattr__(self, name):
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(self.inner, name)

        def __call__(self, x):
            return ("mine", super().__call__(x))

        def forward(self, x):
            return self.inner(x)

    class Below(Fallback):
        pass

    class Counts(lib.nn.Identity):
        reads = collections.Counter()

        def __getattribute__(self, name):
            Counts.reads[name] += 1
            return super().__getattribute__(name)

    model = Below(lib.nn.Linear(2, 3))
    assert model.in_features == 2 and model.weight is model.inner.weight and model(lib.ones(1, 2))[0] == "mine"
    assert Counts()(5) == 5 and Counts.reads["forward"] == 1
    with pytest.raises(AttributeError, match="'Linear' object has no attribute 'nothing'"):
        model.nothing  # noqa: B018


@BOTH
def test_changes_of_a_class_are_seen(lib, monkeypatch):
    class Layer(lib.nn.Module):
        def forward(self, x):
            return x + 1

    class Other(Layer):
        pass

    layer = Other()
    assert layer(1) == 2
    monkeypatch.setattr(Layer, "forward", lambda self, x: x + 10)
    assert layer(1) == 11
    layer.forward = lambda x: x + 100
    assert layer(1) == 101
    del layer.forward
    with monkeypatch.context() as patch:
        patch.setattr(lib.nn.Module, "__call__", lambda self, *args: "patched")
        assert layer(1) == "patched" and lib.nn.Identity()(1) == "patched"
        patch.setattr(lib.nn.Module, "__getattr__", lambda self, name: name.upper())
        assert layer.some == "SOME" and lib.nn.Identity().weight == "WEIGHT"

        class Late(Layer):
            pass

        assert Late()(1) == "patched" and Late().some == "SOME"
    assert layer(1) == 11 and Late()(1) == 11
    layer.__class__ = Late
    assert layer(1) == 11


@BOTH
def test_properties_slots_and_mixins(lib):
    class Mixin:
        def __init_subclass__(cls, tag=None, **kwargs):
            super().__init_subclass__(**kwargs)
            cls.tag = tag

        def __call__(self, x):
            return "mixin"

    class Broken(lib.nn.Module):
        @property
        def size(self):
            return self.missing

        @property
        def part(self):
            raise AttributeError("hidden")

    class First(Mixin, lib.nn.Identity, tag=1):
        __slots__ = ("extra",)

    class Second(lib.nn.Identity, Mixin, tag=2):
        pass

    first, second, broken = First(), Second(), Broken()
    first.extra = 7
    assert (first(3), first.tag, first.extra) == ("mixin", 1, 7) and (second(3), second.tag) == (3, 2)
    for name in ("size", "part", "nothing"):
        with pytest.raises(AttributeError, match="'Broken' object has no attribute"):
            getattr(broken, name)
    broken._modules["part"] = first
    assert broken.part is first, "where a property raises AttributeError, the dictionaries are asked"


@BOTH
def test_attributes(lib):
    layer = lib.nn.Linear(2, 3)
    assert layer.weight is layer._parameters["weight"] is getattr(layer, "".join(["wei", "ght"]))
    layer._parameters = collections.OrderedDict(layer._parameters, more=None)
    assert layer.more is None and hasattr(layer, "bias")
    layer.__dict__["weight"] = 4
    assert layer.weight == 4
    del layer.__dict__["weight"], layer._parameters["bias"]
    with pytest.raises(AttributeError, match="'Linear' object has no attribute 'bias'"):
        layer.bias  # noqa: B018
    del layer._parameters
    with pytest.raises(AttributeError, match="'Linear' object has no attribute 'weight'"):
        layer.weight  # noqa: B018
    with pytest.raises(TypeError):
        getattr(layer, 3)


@BOTH
def test_what_was_found_before_is_looked_for_again_after_a_change(lib):
    layers = [lib.nn.Linear(2, 3) for _ in range(3)]
    for _ in range(3):
        for layer in layers:
            assert layer.weight is layer._parameters["weight"] and layer.bias is layer._parameters["bias"]
    first, second, third = layers
    new = lib.nn.Parameter(lib.ones(3, 2))
    first.weight = new
    second._parameters["weight"] = new
    third._parameters = {"weight": new, "bias": None}
    for layer in layers:
        assert layer.weight is new and layer(lib.ones(1, 2)).shape == (1, 3)
    first.__dict__["weight"] = 1
    del second.weight
    third._parameters.clear()
    assert first.weight == 1
    for layer in (second, third):
        with pytest.raises(AttributeError, match="'Linear' object has no attribute 'weight'"):
            layer.weight  # noqa: B018
    for k in range(600):  # more than are remembered
        layer = lib.nn.Module()
        layer.register_buffer("x", lib.ones(1) * k)
        layer.register_buffer(f"x{k}", lib.ones(1))
        assert layer.x.item() == k and getattr(layer, f"x{k}").item() == 1 and layer.x.item() == k


@BOTH
def test_before_init(lib):
    class Forgets(lib.nn.Module):
        def __init__(self):
            pass

        def forward(self, x):
            return x

    with pytest.raises(AttributeError, match="'Forgets' object has no attribute 'weight'"):
        Forgets().weight  # noqa: B018
    with pytest.raises(AttributeError, match="'Forgets' object has no attribute '_"):
        Forgets()(1)


@BOTH
def test_hooks_come_and_go(lib):
    layer, seen = lib.nn.Identity(), []
    handle = layer.register_forward_hook(lambda module, args, result: seen.append(args))
    assert layer(1) == 1 and seen == [(1,)]
    handle.remove()
    assert layer(2) == 2 and seen == [(1,)]


def test_copies():
    layer, x = Saved(2, 3), nt.randn(4, 2)
    for twin in (copy.deepcopy(layer), copy.copy(layer), pickle.loads(pickle.dumps(layer))):
        assert type(twin) is Saved and twin(x).tolist() == layer(x).tolist() and twin.weight.requires_grad
    compiled = nt.compile(layer)
    assert compiled(x).tolist() == layer(x).tolist() and compiled.weight is layer.weight
