"""torch.nn.intrinsic: the older place of torch.ao.nn.intrinsic."""

from ...ao.nn import intrinsic as _now

__all__ = list(_now.__all__)
globals().update({name: getattr(_now, name) for name in __all__})
