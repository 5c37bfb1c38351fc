"""torch.quantization: the older place of torch.ao.quantization."""

from .ao import quantization as _now

__all__ = list(_now.__all__)
globals().update({name: getattr(_now, name) for name in __all__})
__getattr__ = _now.__getattr__
