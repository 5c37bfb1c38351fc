"""torch.special: functions beyond the elementary ones, under the names that they have there."""

from . import _C
from ._shells import shells_of_module as _shells

_NAMES = (
    "airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "chebyshev_polynomial_t", "chebyshev_polynomial_u",
    "chebyshev_polynomial_v", "chebyshev_polynomial_w", "digamma", "entr", "erf", "erfc", "erfcx", "erfinv", "exp2",
    "expit", "expm1", "gammainc", "gammaincc", "gammaln", "hermite_polynomial_h", "hermite_polynomial_he", "i0",
    "i0e", "i1", "i1e", "laguerre_polynomial_l", "legendre_polynomial_p", "log1p", "log_ndtr", "logit", "logsumexp",
    "modified_bessel_i0", "modified_bessel_i1", "modified_bessel_k0", "modified_bessel_k1", "ndtr", "ndtri",
    "polygamma", "psi", "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "shifted_chebyshev_polynomial_t",
    "shifted_chebyshev_polynomial_u", "shifted_chebyshev_polynomial_v", "shifted_chebyshev_polynomial_w", "sinc",
    "spherical_bessel_j0", "xlog1py", "zeta",
)  # fmt: skip
# Functions of torch, one under a name of its own.
_OTHERS = {"multigammaln": "mvlgamma"}
for _name in ("log_softmax", "round", "softmax", "xlogy"):
    _OTHERS[_name] = _name

__all__ = sorted([*_NAMES, *_OTHERS])

for _name in _NAMES:
    globals()[_name] = _C.functions["torch._C._special.special_" + _name]
for _name, _function in _OTHERS.items():
    globals()[_name] = getattr(_C, _function)


_shells(globals(), set())
