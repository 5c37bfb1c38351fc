"""torch.fx.experimental: questions about sizes that are values of a graph."""

from ..._absent import getter

__getattr__ = getter("torch.fx.experimental")
