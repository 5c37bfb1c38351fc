"""torch.nn.quantized.dynamic: the older place of torch.ao.nn.quantized.dynamic."""

from ...ao.nn.quantized import dynamic as _now

__all__ = list(_now.__all__)
globals().update({name: getattr(_now, name) for name in __all__})
