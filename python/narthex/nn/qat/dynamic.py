"""torch.nn.qat.dynamic: layers that train for integers are not there; their names are."""

from ..._later import names

_NAMES = ("Linear",)
globals().update(names("torch.nn.qat.dynamic", "models compute in floats", _NAMES))
__all__ = list(_NAMES)
