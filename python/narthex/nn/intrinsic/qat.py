"""torch.nn.intrinsic.qat: rows of layers that train for integers are not there; their names are."""

from ..._later import names

_NAMES = (
    "ConvBn1d", "ConvBn2d", "ConvBn3d", "ConvBnReLU1d", "ConvBnReLU2d", "ConvBnReLU3d", "ConvReLU1d", "ConvReLU2d",
    "ConvReLU3d", "LinearBn1d", "LinearReLU", "freeze_bn_stats", "update_bn_stats",
)  # fmt: skip
globals().update(names("torch.nn.intrinsic.qat", "models compute in floats", _NAMES))
__all__ = list(_NAMES)
