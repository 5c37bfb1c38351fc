"""torch.nn.quantized.functional: the older place of torch.ao.nn.quantized.functional."""

from ...ao.nn.quantized import functional as _now

__all__ = list(_now.__all__)
globals().update({name: getattr(_now, name) for name in __all__})
