"""Tensor's methods that write, as functions of torch."""

_WRITING = (
    "abs acos acosh arccos arccosh arcsin arcsinh arctan arctanh asin asinh atan atanh ceil clamp clamp_max clamp_min "
    "clip cos cosh deg2rad detach erf erfc exp exp2 expm1 fix floor frac gcd i0 index_put lcm log log10 log1p log2 "
    "nan_to_num neg negative rad2deg reciprocal relu round rsqrt sigmoid sin sinc sinh sqrt tan tanh trunc xlogy"
)
WRITING = tuple(name + "_" for name in _WRITING.split())


def function(name: str):
    """torch.<name> of the table; None of another name."""
    if name not in WRITING:
        return None
    from ._tensor import Tensor

    return getattr(Tensor, name, None)
