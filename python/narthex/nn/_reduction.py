"""How a loss of many elements becomes one: "none", "mean" or "sum", and the deprecated forms of saying so. PyTorch has
this module too, and packages of losses take it."""

import warnings

_NUMBERS = {"none": 0, "mean": 1, "sum": 2}


def get_enum(reduction: str) -> int:
    """The number of `reduction`, which operators take."""
    if reduction == "elementwise_mean":
        warnings.warn("reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.", stacklevel=2)
        return _NUMBERS["mean"]
    if reduction not in _NUMBERS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return _NUMBERS[reduction]


def legacy_get_string(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> str:
    """What `size_average` and `reduce` say, None being True."""
    if reduce is False:
        reduction = "none"
    else:
        reduction = "sum" if size_average is False else "mean"
    if emit_warning:
        text = f"size_average and reduce args will be deprecated, please use reduction='{reduction}' instead."
        warnings.warn(text, stacklevel=2)
    return reduction


def legacy_get_enum(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> int:
    """The number of what they say."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))


def number(reduction: str, size_average: bool | None = None, reduce: bool | None = None) -> int:
    """The number of `reduction`, or of the deprecated forms where one is given."""
    if size_average is not None or reduce is not None:
        return legacy_get_enum(size_average, reduce)
    return get_enum(reduction)
