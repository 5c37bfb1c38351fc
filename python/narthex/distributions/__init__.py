"""torch.distributions: constraints on parameters and samples so far."""

from .._absent import getter
from . import constraints as constraints

__getattr__ = getter("torch.distributions")
