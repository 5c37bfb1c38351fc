"""What the normalisations share: a scale and a shift of what they made even."""

from ... import _C
from .. import init
from ..parameter import Parameter
from .module import Module


class Affine(Module):
    """A module with a `weight` of ones and a `bias` of zeros of one shape, each None where it is not wanted."""

    def _add_affine(self, shape: tuple, weight: bool, bias: bool, device, dtype) -> None:
        for name, wanted in (("weight", weight), ("bias", bias)):
            made = Parameter(_C.empty(shape, device=device, dtype=dtype)) if wanted else None
            self.register_parameter(name, made)

    def reset_parameters(self) -> None:
        """Ones and zeros."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)
