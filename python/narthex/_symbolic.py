"""Sizes as values: what torch.sym_* and torch._check* do with numbers and with the SymInts of a capture."""

import math

from . import _C
from ._C import SymInt

__all__ = [
    "SymBool", "SymFloat", "SymInt", "_assert", "_assert_async", "_assert_scalar", "_check", "_check_index",
    "_check_is_size", "_check_not_implemented", "_check_tensor_all", "_check_tensor_all_with", "_check_type",
    "_check_value", "_check_with", "sym_constrain_range",
    "sym_constrain_range_for_size", "sym_float", "sym_fresh_size", "sym_int", "sym_ite", "sym_max", "sym_min",
    "sym_not", "sym_sqrt", "sym_sum",
]  # fmt: skip


class SymFloat:
    """A float that is a value of a graph: none is ever made, a capture guards floats; programs ask isinstance."""

    def __init__(self, *args) -> None:
        raise NotImplementedError("SymFloat: floats of a capture are guarded, not symbolic")


class SymBool:
    """A truth value of a graph: none is ever made, a capture guards comparisons; programs ask isinstance."""

    def __init__(self, *args) -> None:
        raise NotImplementedError("SymBool: comparisons of a capture are guarded, not symbolic")


def sym_int(a):
    """The whole number towards zero."""
    return a if isinstance(a, (int, SymInt)) and not isinstance(a, bool) else math.trunc(a)


def sym_float(a) -> float:
    """The number as a float."""
    return float(a)


def sym_max(a, b):
    """The larger one; a float where one of them is."""
    larger = a if a >= b else b
    return float(larger) if isinstance(a, float) or isinstance(b, float) else larger


def sym_min(a, b):
    """The smaller one; a float where one of them is."""
    smaller = a if a <= b else b
    return float(smaller) if isinstance(a, float) or isinstance(b, float) else smaller


def sym_not(a) -> bool:
    """Whether `a` is not so."""
    return not a


def sym_ite(b, t, f):
    """`t` where `b` holds, else `f`."""
    return t if b else f


def sym_sum(*args):
    """The sum of numbers, or of one list of them."""
    return sum(args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args)


def sym_sqrt(a) -> float:
    """The square root."""
    return math.sqrt(a)


def sym_fresh_size(expr):
    """Raises NotImplementedError."""
    raise NotImplementedError("sym_fresh_size is not there: sizes that elements decide end a graph")


def _check_with(error_type, cond, message) -> None:
    if not isinstance(cond, bool):
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if cond:
        return
    if message is None:
        text = "Expected cond to be True, but got False. (Could this error message be improved? If so, please report " \
               "an enhancement request to PyTorch.)"  # fmt: skip
    else:
        if not callable(message):
            raise TypeError("message must be a callable")
        text = str(message())
    raise error_type(text)


def _check(cond, message=None) -> None:
    """RuntimeError with the text that `message()` makes where `cond` does not hold."""
    _check_with(RuntimeError, cond, message)


def _check_is_size(i, message=None, *, max=None) -> None:
    """RuntimeError where `i` is no size: negative, or larger than `max`."""
    _check(bool(i >= 0), message)
    if max is not None:
        _check(bool(i <= max), message)


def _check_index(cond, message=None) -> None:
    """As _check, with IndexError."""
    _check_with(IndexError, cond, message)


def _check_value(cond, message=None) -> None:
    """As _check, with ValueError."""
    _check_with(ValueError, cond, message)


def _check_type(cond, message=None) -> None:
    """As _check, with TypeError."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond, message=None) -> None:
    """As _check, with NotImplementedError."""
    _check_with(NotImplementedError, cond, message)


def _check_tensor_all_with(error_type, cond, message=None) -> None:
    """As _check, of a bool tensor all of which must hold."""
    from . import is_tensor

    if not is_tensor(cond):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if cond.dtype is not _C.bool:
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    _check_with(error_type, cond.all().item(), message)


def _check_tensor_all(cond, message=None) -> None:
    """As _check, of a bool tensor all of which must hold."""
    _check_tensor_all_with(RuntimeError, cond, message)


def _assert(condition, message) -> None:
    """Python's assert as a function: AssertionError(message)."""
    if type(condition) is not bool and _C._has_torch_function_unary(condition):
        from .overrides import handle_torch_function

        return handle_torch_function(_assert, (condition,), condition, message)
    assert condition, message


def _assert_async(input, assert_msg: str = "Expected Tensor with single nonzero value, but got zero") -> None:
    """RuntimeError where the one element is zero."""
    if not input.item():
        raise RuntimeError(assert_msg)


def _assert_scalar(self, assert_msg: str) -> None:
    """RuntimeError where the number is zero."""
    if not self:
        raise RuntimeError(assert_msg)


# ---- ranges that a program promises
def _check_range(size, low: int, high: int) -> None:
    if high < low:
        raise RuntimeError(f"Max must be greater than or equal to min. Got min={low} max={high}")
    if not low <= size <= high:
        raise RuntimeError(f"Invalid value range for {int(size)} between [{low}, {high}].")


def _number(function: str, size) -> None:
    if not isinstance(size, (int, float, SymInt)):
        kind = "Tensor" if isinstance(size, _C.TensorBase) else type(size).__name__
        raise TypeError(f"{function}(): argument 'size' (position 1) must be Number, not {kind}")


def sym_constrain_range(size, *, min=None, max=None) -> None:
    """Raises unless `size` lies in the range."""
    _number("sym_constrain_range", size)
    _check_range(size, -(1 << 63) if min is None else min, (1 << 63) - 1 if max is None else max)


def sym_constrain_range_for_size(size, *, min=None, max=None) -> None:
    """Raises unless `size` is no negative number and lies in the range."""
    _number("sym_constrain_range_for_size", size)
    if max is not None and max <= 2:
        raise RuntimeError(f"Max value to constrain_range_for_size must be greater than 2. got: {max}")
    _check_range(size, 0 if min is None else min, (1 << 63) - 1 if max is None else max)
