"""torch.nn.intrinsic.quantized: rows of layers over integers are not there; their names are."""

from ..._later import names

_NAMES = ("BNReLU2d", "BNReLU3d", "ConvReLU1d", "ConvReLU2d", "ConvReLU3d", "LinearReLU")
globals().update(names("torch.nn.intrinsic.quantized", "models compute in floats", _NAMES))
__all__ = list(_NAMES)
