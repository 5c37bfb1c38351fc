"""torch.ao.nn.quantized.functional: functions of quantised tensors are not there; their names are."""

from ...._later import names

_NAMES = (
    "adaptive_avg_pool2d", "adaptive_avg_pool3d", "avg_pool2d", "avg_pool3d", "celu", "clamp", "conv1d", "conv2d",
    "conv3d", "elu", "hardsigmoid", "hardswish", "hardtanh", "interpolate", "leaky_relu", "linear", "max_pool1d",
    "max_pool2d", "threshold", "upsample", "upsample_bilinear", "upsample_nearest",
)  # fmt: skip
globals().update(names("torch.ao.nn.quantized.functional", "use torch.nn.functional", _NAMES))
__all__ = list(_NAMES)
