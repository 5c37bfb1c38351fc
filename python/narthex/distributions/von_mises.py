"""The von Mises distribution."""

import math

from .. import _C
from ..autograd.grad_mode import no_grad
from . import constraints
from .distribution import Distribution
from .utils import batch_shape_of, broadcast_all, lazy_property

# Polynomials of Abramowitz and Stegun 9.8.1 to 9.8.4, lowest power first: below 3.75 and above.
_SMALL = (
    (1.0, 3.5156229, 3.0899424, 1.2067492, 0.2659732, 0.0360768, 0.0045813),
    (0.5, 0.87890594, 0.51498869, 0.15084934, 0.02658733, 0.00301532, 0.00032411),
)
_LARGE = (
    (0.39894228, 0.01328592, 0.00225319, -0.00157565, 0.00916281, -0.02057706, 0.02635537, -0.01647633, 0.00392377),
    (0.39894228, -0.03988024, -0.00362018, 0.00163801, -0.01031555, 0.02282967, -0.02895312, 0.01787654, -0.00420059),
)  # fmt: skip


def _polynomial(y, coefficients):
    result = 0.0
    for coefficient in reversed(coefficients):
        result = result * y + coefficient
    return result


def _log_bessel(x, order: int):
    """log I_order(x) for a positive x and order 0 or 1."""
    y = (x / 3.75).pow(2)
    small = _polynomial(y, _SMALL[order])
    small = (x.abs() * small if order else small).log()
    large = x - 0.5 * x.log() + _polynomial(3.75 / x, _LARGE[order]).log()
    return _C.where(x < 3.75, small, large)


class VonMises(Distribution):
    """Angles around `loc`, the closer the larger `concentration`."""

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = False

    def __init__(self, loc, concentration, validate_args=None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(batch_shape_of(self.loc, loc, concentration), validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        return self._expanded(VonMises, batch_shape, _instance, ("loc", "concentration"))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        density = self.concentration * _C.cos(value - self.loc)
        return density - math.log(2 * math.pi) - _log_bessel(self.concentration, 0)

    @lazy_property
    def _proposal_r(self):
        k = self.concentration.double()
        tau = 1 + (1 + 4 * k**2).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * k)
        return _C.where(k < 1e-5, 1 / k + k, (1 + rho**2) / (2 * rho))

    def sample(self, sample_shape=()):
        """By Best and Fisher's rejection, in double."""
        with no_grad():
            shape = self._extended_shape(sample_shape)
            loc, k, r = (t.expand(shape) for t in (self.loc.double(), self.concentration.double(), self._proposal_r))
            x, done = _C.zeros(shape, dtype=_C.float64), _C.zeros(shape, dtype=_C.bool)
            while not done.all():
                u1, u2, u3 = _C.rand((3, *shape), dtype=_C.float64).unbind()
                z = _C.cos(math.pi * u1)
                f = (1 + r * z) / (r + z)
                c = k * (r - f)
                accepted = ((c * (2 - c) - u2) > 0) | ((c / u2).log() + 1 - c >= 0)
                x = _C.where(accepted, (u3 - 0.5).sign() * f.acos(), x)
                done = done | accepted
            return ((x + math.pi + loc) % (2 * math.pi) - math.pi).to(self.loc.dtype)

    mean = mode = property(lambda self: self.loc)

    @lazy_property
    def variance(self):
        return 1 - (_log_bessel(self.concentration, 1) - _log_bessel(self.concentration, 0)).exp()
