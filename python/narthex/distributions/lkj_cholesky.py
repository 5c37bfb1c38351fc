"""The LKJ distribution of Cholesky factors of correlations."""

import math

from .. import _C
from .._type_info import finfo
from ..autograd.grad_mode import no_grad
from . import constraints
from .beta import Beta
from .distribution import Distribution
from .utils import broadcast_all


class LKJCholesky(Distribution):
    """Of matrices of `dim`; the larger `concentration`, the nearer they are to the identity."""

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(self, dim: int, concentration=1.0, validate_args=None) -> None:
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        like = self.concentration.detach()
        marginal = like + 0.5 * (dim - 2)
        offset = _C.arange(dim - 1, dtype=like.dtype, device=like.device)
        offset = _C.cat([offset.new_zeros((1,)), offset])
        self._beta = Beta(offset + 0.5, marginal.unsqueeze(-1) - 0.5 * offset)
        super().__init__(self.concentration.size(), (dim, dim), validate_args)

    def expand(self, batch_shape, _instance=None):
        batch_shape = _C.Size(batch_shape)
        new = self._expanded(LKJCholesky, batch_shape, _instance, ("concentration",), self.event_shape)
        new.dim, new._beta = self.dim, self._beta.expand((*batch_shape, self.dim))
        return new

    def sample(self, sample_shape=()):
        with no_grad():
            y = self._beta.sample(sample_shape).unsqueeze(-1)
            shape = self._extended_shape(sample_shape)
            normal = _C.randn(shape, dtype=y.dtype, device=y.device).tril(-1)
            sphere = normal / normal.norm(dim=-1, keepdim=True)
            sphere[..., 0, :].fill_(0.0)
            w = _C.sqrt(y) * sphere
            diagonal = _C.clamp(1 - (w**2).sum(-1), min=finfo(w.dtype).tiny).sqrt()
            return w + _C.diag_embed(diagonal)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        order = _C.arange(2, self.dim + 1, device=self.concentration.device)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - order
        density = (order * diagonal.log()).sum(-1)
        less = self.dim - 1
        alpha = self.concentration + 0.5 * less
        whole = 0.5 * less * math.log(math.pi) + _C.mvlgamma(alpha - 0.5, less) - _C.lgamma(alpha) * less
        return density - whole
