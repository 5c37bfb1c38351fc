"""torch.nn.qat: the older place of torch.ao.nn.qat."""

from ...ao.nn import qat as _now

__all__ = list(_now.__all__)
globals().update({name: getattr(_now, name) for name in __all__})
