"""torch.nn.quantizable: the older place of torch.ao.nn.quantizable."""

from ..ao.nn import quantizable as _now

__all__ = list(_now.__all__)
globals().update({name: getattr(_now, name) for name in __all__})
