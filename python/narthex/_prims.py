"""torch._prims: the operators to which PyTorch takes others apart. Those that are operators of torch, too, are these;
of what has no other name, the few that have a plain meaning."""

from importlib import import_module

from ._absent import absent

_SAME = frozenset("""
    abs acos acosh asin asinh atan atanh cos cosh bitwise_not ceil conj_physical digamma erf erfc exp expm1 exp2 floor
    imag isfinite lgamma log log1p log2 log10 neg real reciprocal round sign signbit sin sinh sqrt tan tanh trunc add
    atan2 bitwise_and bitwise_or bitwise_xor eq fmax fmin fmod frexp gcd ge gt hypot igamma igammac le lt maximum
    minimum mul ne nextafter pow remainder rsqrt sub as_strided where clone empty_strided
""".split())
_OTHERS = {"shift_left": "bitwise_left_shift", "shift_right_arithmetic": "bitwise_right_shift"}
_SPECIAL = {
    "bessel_i0": "i0", "bessel_i0e": "i0e", "bessel_i1": "i1", "bessel_i1e": "i1e", "bessel_j0": "bessel_j0",
    "bessel_j1": "bessel_j1", "erf_inv": "erfinv", "erfcx": "erfcx", "ndtri": "ndtri", "zeta": "zeta",
    "spherical_bessel_j0": "spherical_bessel_j0",
}  # fmt: skip


def convert_element_type(a, dtype):
    """`a` with elements of another dtype."""
    return a.to(dtype)


def broadcast_in_dim(a, shape, broadcast_dimensions):
    """A view of `shape`, of which `broadcast_dimensions` are the dimensions of `a`, each as it was or of size 1."""
    sizes = [1] * len(shape)
    for size, dim in zip(a.shape, broadcast_dimensions, strict=True):
        sizes[dim] = size
    return a.reshape(sizes).expand(shape)


def transpose(a, permutation):
    """The dimensions of `a` in another order."""
    return a.permute(permutation)


def __getattr__(name: str):
    if name in _SAME or name in _OTHERS:
        return getattr(import_module("narthex"), _OTHERS.get(name, name))
    if name in _SPECIAL:
        return getattr(import_module("narthex.special"), _SPECIAL[name])
    raise absent("torch._prims", name)
