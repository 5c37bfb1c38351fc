"""The layers by the place where PyTorch defines them."""

from .. import quantized as _now

__all__ = list(_now.__all__)
globals().update({name: getattr(_now, name) for name in __all__})
