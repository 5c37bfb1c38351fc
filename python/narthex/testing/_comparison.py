"""assert_close: tensors, numbers and what contains them are nearly equal, or an AssertionError says where not."""

import cmath
import warnings
from collections.abc import Mapping, Sequence
from typing import NoReturn

import narthex as torch

_FLOATS = {
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
    torch.float32: (1.3e-6, 1e-5),
    torch.float64: (1e-7, 1e-7),
    torch.complex32: (1e-3, 1e-5),
    torch.complex64: (1.3e-6, 1e-5),
    torch.complex128: (1e-7, 1e-7),
}
_OLD = {torch.float16: (1e-3, 1e-3), torch.float32: (1e-4, 1e-5), torch.float64: (1e-5, 1e-8)}


def _tolerances(dtypes: tuple, rtol, atol) -> tuple:
    """Those given, else the widest that are usual for one of the dtypes."""
    if (rtol is None) != (atol is None):
        raise ValueError(
            "Both 'rtol' and 'atol' must be either specified or omitted, "
            f"but got no {'rtol' if rtol is None else 'atol'}."
        )
    if rtol is not None:
        return rtol, atol
    usual = [_FLOATS.get(dtype, (0.0, 0.0)) for dtype in dtypes]
    return max(pair[0] for pair in usual), max(pair[1] for pair in usual)


class _Comparison:
    """How to compare, and `at`: the keys and indices that lead to what is compared now."""

    def __init__(self, rtol, atol, equal_nan: bool, attributes: dict, allow_subclasses: bool, msg):
        self.rtol, self.atol, self.equal_nan, self.attributes = rtol, atol, equal_nan, attributes
        self.allow_subclasses, self.msg = allow_subclasses, msg
        self.at: tuple = ()
        self.pairs: list = []

    def fail(self, text: str) -> NoReturn:
        if isinstance(self.msg, str):
            raise AssertionError(self.msg)
        if self.at:
            text += f"\n\nThe failure occurred for item {''.join(f'[{key!r}]' for key in self.at)}"
        raise AssertionError(self.msg(text) if callable(self.msg) else text)

    # ---- what is compared with what --------------------------------------------------------------------------
    def pair_up(self, actual, expected, at: tuple) -> None:
        """Adds a comparison for each pair of leaves; containers must have the same form."""
        self.at = at
        if _are(Sequence, actual, expected) and not isinstance(actual, str) and not isinstance(expected, str):
            if len(actual) != len(expected):
                self.fail(f"The length of the sequences mismatch: {len(actual)} != {len(expected)}")
            for index, (a, b) in enumerate(zip(actual, expected)):
                self.pair_up(a, b, (*at, index))
        elif _are(Mapping, actual, expected):
            for key in self.common_keys(actual, expected):
                self.pair_up(actual[key], expected[key], (*at, key))
        else:
            compare = self.chosen(actual, expected)
            self.pairs.append((at, compare, actual, expected))

    def common_keys(self, actual, expected) -> list:
        missing, additional = set(expected) - set(actual), set(actual) - set(expected)
        if missing or additional:
            self.fail(
                "The keys of the mappings do not match:\n"
                f"Missing keys in the actual mapping: {sorted(missing)}\n"
                f"Additional keys in the actual mapping: {sorted(additional)}"
            )
        try:
            return sorted(actual)
        except TypeError:
            return list(actual)

    def chosen(self, actual, expected):
        kinds = _is_bool(actual), _is_bool(expected)
        if actual is None or expected is None:
            return self.compare_none
        if all(kinds):
            return self.compare_bools
        if _is_number(actual) and _is_number(expected):
            if any(kinds):
                raise RuntimeError(f"a bool is compared with a number: {actual!r} and {expected!r}")
            _tolerances((torch.float32,), self.rtol, self.atol)
            return self.compare_numbers
        related = isinstance(actual, type(expected)) or isinstance(expected, type(actual))
        same = type(actual) is type(expected)
        if (same or (self.allow_subclasses and related)) and _is_array(actual) and _is_array(expected):
            return self.compare_tensors
        raise TypeError(f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}.")

    # ---- leaves ----------------------------------------------------------------------------------------------
    def compare_none(self, actual, expected) -> None:
        if actual is not expected:
            self.fail(f"None mismatch: {actual} is not {expected}")

    def compare_bools(self, actual, expected) -> None:
        if bool(actual) is not bool(expected):
            self.fail(f"Booleans mismatch: {bool(actual)} is not {bool(expected)}")

    def compare_numbers(self, actual, expected) -> None:
        actual, expected = _plain(actual), _plain(expected)
        if self.attributes["dtype"] and type(actual) is not type(expected):
            self.fail(f"The (d)types do not match: {type(actual)} != {type(expected)}.")
        kinds = {int: torch.int64, float: torch.float64, complex: torch.complex128}
        rtol, atol = _tolerances((kinds[type(actual)], kinds[type(expected)]), self.rtol, self.atol)
        self.compare_scalars(actual, expected, rtol, atol)

    def compare_scalars(self, actual, expected, rtol, atol) -> None:
        difference = abs(actual - expected)
        both_nan = cmath.isnan(actual) and cmath.isnan(expected)
        if actual == expected or (both_nan and self.equal_nan):
            return
        if cmath.isfinite(difference) and difference <= atol + rtol * abs(expected):
            return
        relative = float("inf") if expected == 0 else difference / abs(expected)
        exact = rtol == atol == 0
        first, second = ("", "") if exact else (f" (up to {atol} allowed)", f" (up to {rtol} allowed)")
        self.fail(
            f"Scalars are not {'equal' if exact else 'close'}!\n\n"
            f"Expected {expected} but got {actual}.\n"
            f"Absolute difference: {difference}{first}\n"
            f"Relative difference: {relative}{second}"
        )

    def compare_tensors(self, actual, expected) -> None:
        actual, expected = torch.as_tensor(actual).detach(), torch.as_tensor(expected).detach()
        self.compare_attributes(actual, expected)
        rtol, atol = _tolerances((actual.dtype, expected.dtype), self.rtol, self.atol)
        actual, expected = _alike(actual, expected)
        matches = torch.isclose(actual, expected, rtol=rtol, atol=atol, equal_nan=self.equal_nan)
        if bool(matches.all()):
            return
        if actual.ndim == 0:
            self.compare_scalars(actual.item(), expected.item(), rtol, atol)
        self.fail(_where(actual, expected, matches, rtol, atol))

    def compare_attributes(self, actual, expected) -> None:
        wanted = {
            "shape": lambda x: x.shape,
            "layout": lambda x: x.layout,
            "device": lambda x: x.device,
            "dtype": lambda x: x.dtype,
            "stride": lambda x: x.stride(),
        }
        for name, read in wanted.items():
            if self.attributes[name] and read(actual) != read(expected):
                label = "stride()" if name == "stride" else name
                self.fail(f"The values for attribute '{label}' do not match: {read(actual)} != {read(expected)}.")


def _are(kind, actual, expected) -> bool:
    return isinstance(actual, kind) and isinstance(expected, kind)


def _is_bool(value) -> bool:
    return isinstance(value, bool) or type(value).__name__ in ("bool_", "bool")


def _is_number(value) -> bool:
    return isinstance(value, int | float | complex) or _is_numpy_number(value)


def _is_numpy_number(value) -> bool:
    return any(kind.__module__ == "numpy" and kind.__name__ == "number" for kind in type(value).__mro__)


def _plain(number):
    return number.item() if _is_numpy_number(number) else number


def _is_array(value) -> bool:
    return isinstance(value, torch.Tensor) or hasattr(value, "__array_interface__")


def _alike(actual, expected) -> tuple:
    """Both on one device and of one dtype, in which differences do not wrap."""
    if actual.device != expected.device:
        actual, expected = actual.cpu(), expected.cpu()
    dtype = torch.promote_types(actual.dtype, expected.dtype)
    if not dtype.is_floating_point and not dtype.is_complex:
        dtype = torch.int64
    elif dtype.is_floating_point and dtype.itemsize == 1:
        dtype = torch.float32
    return actual.to(dtype), expected.to(dtype)


def _where(actual, expected, matches, rtol, atol) -> str:
    """How many elements differ, and where most."""
    shape, n, exact = actual.shape, actual.numel(), rtol == atol == 0
    wrong = n - int(matches.sum())
    matches, actual, expected = matches.flatten(), actual.flatten(), expected.flatten()
    difference = torch.abs(actual - expected)
    relative = difference / torch.abs(expected)
    lines = [
        f"Tensor-likes are not {'equal' if exact else 'close'}!\n",
        f"Mismatched elements: {wrong} / {n} ({wrong / n:.1%})",
    ]
    for name, values, limit in (("absolute", difference, atol), ("relative", relative, rtol)):
        values = values.masked_fill(matches, 0)
        worst, at = values.max(0)
        index, rest = [], int(at)
        for size in reversed(shape):
            rest, place = divmod(rest, size)
            index.insert(0, place)
        allowed = "" if exact else f" (up to {limit} allowed)"
        lines.append(f"Greatest {name} difference: {worst.item()} at index {tuple(index)}{allowed}")
    return "\n".join(lines)


def assert_close(
    actual,
    expected,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg=None,
) -> None:
    """|actual - expected| <= atol + rtol * |expected| everywhere, and the attributes that are checked are equal."""
    attributes = {
        "shape": True,
        "layout": check_layout,
        "device": check_device,
        "dtype": check_dtype,
        "stride": check_stride,
    }
    comparison = _Comparison(rtol, atol, equal_nan, attributes, allow_subclasses, msg)
    comparison.pair_up(actual, expected, ())
    for at, compare, one, other in comparison.pairs:
        comparison.at = at
        compare(one, other)


def assert_allclose(actual, expected, rtol=None, atol=None, equal_nan: bool = True, msg: str = "") -> None:
    """The older form of assert_close: dtypes and devices may differ, NaNs are equal."""
    warnings.warn("`torch.testing.assert_allclose()` is deprecated since 1.12", FutureWarning, stacklevel=2)
    actual, expected = torch.as_tensor(actual), torch.as_tensor(expected)
    if rtol is None and atol is None:
        usual = [_OLD.get(dtype, (0.0, 0.0)) for dtype in (actual.dtype, expected.dtype)]
        rtol, atol = max(pair[0] for pair in usual), max(pair[1] for pair in usual)
    assert_close(
        actual,
        expected,
        rtol=rtol,
        atol=atol,
        equal_nan=equal_nan,
        check_device=True,
        check_dtype=False,
        msg=msg or None,
    )
