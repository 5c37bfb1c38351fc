"""torch.nn.quantized.modules: the older place of torch.ao.nn.quantized."""

from ...ao.nn import quantized as _now

__all__ = list(_now.__all__)
globals().update({name: getattr(_now, name) for name in __all__})
