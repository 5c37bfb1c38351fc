"""Overloads of torch.ops.aten that take plain numbers alone and give one: `torch.ops.aten.sin(2)`. Where nothing is
defined they give C's NaN or infinity, not an error of Python's."""

import cmath
import math
import operator

# What each kind takes: a bool every real number, of which it asks whether it is 0, so that eq(2, 3) holds.
_KINDS = {"bool": (int, float), "int": int, "float": (int, float), "complex": (int, float, complex)}
_PAIRS = {"int": "int int", "float": "float float", "int_float": "int float", "float_int": "float int"}


def _overload(compute, kinds: list):
    """Of arguments of these kinds; of others it raises a TypeError, and the next overload is tried."""

    def call(*numbers):
        if len(numbers) != len(kinds) or not all(isinstance(n, _KINDS[kind]) for n, kind in zip(numbers, kinds)):
            raise TypeError(f"expected {', '.join(kinds)}")
        return compute(*numbers)

    return call


def _of_one(compute, *kinds: str) -> dict:
    return {kind: _overload(compute, [kind]) for kind in kinds}


def _of_two(compute) -> dict:
    return {name: _overload(compute, kinds.split()) for name, kinds in _PAIRS.items()}


def _by_tensors(name: str):
    """By the operator of tensors, in double precision."""

    def compute(*numbers):
        import narthex as torch

        wide = torch.complex128 if any(isinstance(n, complex) for n in numbers) else torch.float64
        return getattr(torch, name)(*(torch.tensor(n, dtype=wide) for n in numbers)).item()

    return compute


def _whole(name: str):
    def compute(number):
        if not -(2**63) <= number < 2**63:
            raise RuntimeError(f"Cannot convert float {number} to integer")
        return getattr(math, name)(number)

    return compute


def _angle(number):
    return cmath.phase(number) if isinstance(number, complex) else math.pi if number < 0 else 0.0


def _equality(compute) -> dict:
    return {"bool": _overload(lambda a, b: compute(bool(a), bool(b)), ["bool", "bool"]), **_of_two(compute)}


_FLOATS = ("erf", "erfc", "expm1", "lgamma", "log1p", "round")
_COMPLEX = (
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "log", "log10", "sin", "sinh"),
    *("sqrt", "tan", "tanh"),
)
_CHECKS = ("isfinite", "isinf", "isnan")
NUMBERS = {
    **{name: _of_one(_by_tensors(name), "int", "float") for name in _FLOATS},
    **{name: _of_one(_by_tensors(name), "int", "float", "complex") for name in _COMPLEX},
    **{name: _of_one(_by_tensors(name), "float", "complex") for name in _CHECKS},
    **{name: _of_one(_whole(name), "int", "float") for name in ("ceil", "floor")},
    "angle": _of_one(_angle, "int", "float", "complex"),
    "neg": _of_one(operator.neg, "int", "float", "complex"),
    **{name: _of_two(_by_tensors(name)) for name in ("atan2", "copysign", "fmod", "polar")},
    **{name: _of_two(getattr(operator, name)) for name in ("lt", "le", "gt", "ge")},
    **{name: _equality(getattr(operator, name)) for name in ("eq", "ne")},
    "gcd": {"int": _overload(math.gcd, ["int", "int"])},
    "ldexp": {"default": _overload(_by_tensors("ldexp"), ["float", "int"])},
}
