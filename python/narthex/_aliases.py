"""Second names: of functions and methods, and of Tensor's methods that write, as functions of torch."""

from . import _C

# Of a function and a method, and of the method that writes, where there is one.
ALIASES = {
    "absolute": "abs", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan",
    "arctan2": "atan2", "arctanh": "atanh", "divide": "div", "fix": "trunc", "greater": "gt", "greater_equal": "ge",
    "less": "lt", "less_equal": "le", "multiply": "mul", "negative": "neg", "not_equal": "ne", "subtract": "sub",
    "true_divide": "div", "clip": "clamp",
}  # fmt: skip
FUNCTIONS = {"row_stack": "vstack"}
_WRITING = (
    "abs acos acosh arccos arccosh arcsin arcsinh arctan arctanh asin asinh atan atanh ceil clamp clamp_max clamp_min "
    "clip cos cosh deg2rad detach erf erfc exp exp2 expm1 fix floor frac gcd i0 index_put lcm log log10 log1p log2 neg "
    "negative rad2deg reciprocal relu round rsqrt sigmoid sin sinc sinh sqrt tan tanh trunc xlogy"
)
WRITING = tuple(name + "_" for name in _WRITING.split())


def add_methods(tensor: type) -> None:
    """Gives the class Tensor the second names of its methods."""
    for name, other in ALIASES.items():
        for suffix in ("", "_"):
            if not hasattr(tensor, name + suffix) and hasattr(tensor, other + suffix):
                setattr(tensor, name + suffix, getattr(tensor, other + suffix))


def function(name: str):
    """torch.<name> of one of the tables; None of another name."""
    if name in WRITING:
        from ._tensor import Tensor

        return getattr(Tensor, name, None)
    other = ALIASES.get(name) or FUNCTIONS.get(name)
    return other and getattr(_C, other)
