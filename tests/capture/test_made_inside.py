"""Classes and coroutines that a compiled function makes: one graph; what of them it returns is made anew at each call,
as it is uncompiled."""

import asyncio
import dataclasses
import gc
import warnings

import narthex as torch
import pytest
from narthex import _C


def calls(function, n=3):
    """What a function compiled as one graph gives, and then in parts."""
    for fullgraph in (True, False):
        compiled = torch.compile(function, fullgraph=fullgraph, backend="eager")
        for call in range(n):
            yield compiled(torch.full((2,), call + 1.0)), call + 1


def test_instance_with_its_class():
    def function(x):
        class Scale:
            k = 1

            def __init__(self, v):
                self.v = v

            def names(self):
                return self.__class__, Scale, super().__init__

            def scaled(self) -> int:
                return self.v * self.k + x

        Scale.k = 5
        return Scale(x + 1)

    seen = set()
    for made, value in calls(function):
        kind = type(made)
        assert (kind.__name__, kind.__qualname__.split(".")[-1], kind.k) == ("Scale", "Scale", 5)
        assert made.names()[:2] == (kind, kind) and kind.scaled.__annotations__ == {"return": int}
        assert made.scaled().tolist() == [(value + 1) * 5 + value] * 2
        seen.add(kind)
    assert len(seen) == 6  # another one at each call


def test_dataclass():
    def function(x):
        @dataclasses.dataclass(frozen=True)
        class Point:
            a: object
            b: int = 3

            def product(self):
                return self.a * self.b

        return Point(x * 2), Point

    for (made, kind), value in calls(function):
        assert type(made) is kind and made.product().tolist() == [value * 6] * 2
        assert repr(kind(1)).endswith("Point(a=1, b=3)") and hash(kind(1)) == hash(kind(1)) and kind(1) == kind(1)
        with pytest.raises(dataclasses.FrozenInstanceError):
            made.b = 4


def test_classes_in_classes_and_descriptors():
    def function(x):
        class Outer:
            class Inner:
                def names(self):
                    return Outer, Outer.Inner, __class__  # noqa: F821 - the compiler's

            @staticmethod
            def given():
                return x

            @property
            def twice(self):
                return self.given() * 2

            @classmethod
            def made(cls):
                return cls()

        return Outer

    for kind, value in calls(function):
        assert kind.Inner().names() == (kind, kind.Inner, kind.Inner)
        assert kind.made().twice.tolist() == [value * 2] * 2


class Slotted:
    __slots__ = ("a", "b", "__dict__")

    def __init__(self, a):
        self.a, self.z = a, 3


class Failed(ValueError):
    def __init__(self, size):
        super().__init__(f"size {size}")
        self.size = size


def test_slots_and_exceptions_that_live_on():
    for made, value in calls(lambda x: Slotted(x + 1)):
        assert made.a.tolist() == [value + 1] * 2 and made.z == 3 and not hasattr(made, "b")
    for made, _ in calls(lambda x: Failed(x.shape[0])):
        assert (str(made), made.size, made.args, made.__traceback__) == ("size 2", 2, ("size 2",), None)


def test_function_with_annotations_and_attributes():
    def function(x):
        def scaled(a: int, b: "str" = "q") -> float:
            """doc"""
            return x + a

        scaled.kept = x * 2
        return scaled

    for made, value in calls(function):
        assert made(1).tolist() == [value + 1] * 2 and made.kept.tolist() == [value * 2] * 2
        assert made.__annotations__ == {"a": int, "b": "str", "return": float} and made.__defaults__ == ("q",)
        assert made.__doc__ == "doc"


async def doubled(x):
    return x * 2


def test_coroutine_that_nobody_awaits():
    def function(x):
        doubled(x)
        return x + 1

    with pytest.raises(_C.Unsupported, match="never awaited"):
        torch.compile(function, fullgraph=True, backend="eager")(torch.ones(2))
    compiled = torch.compile(function, backend="eager")
    for _ in range(3):
        with pytest.warns(RuntimeWarning, match="never awaited"):
            assert compiled(torch.ones(2)).tolist() == [2, 2]
            gc.collect()


def test_asynchronous_generators_under_an_event_loop():
    async def steps(x):
        yield x
        yield x * 2

    def function(x):
        async def first():
            async for step in steps(x):
                return step + 1

        try:
            first().send(None)
        except StopIteration as done:
            return done.value

    async def run():
        return [compiled(torch.ones(2)).tolist() for _ in range(3)]

    compiled = torch.compile(function, backend="eager")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert asyncio.run(run()) == [[2, 2]] * 3
