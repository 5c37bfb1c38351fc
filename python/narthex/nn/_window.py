"""Functions that see a tensor through windows: convolutions. Part of functional."""

from .. import _C

conv1d, conv2d, conv3d = _C.conv1d, _C.conv2d, _C.conv3d
conv_transpose1d, conv_transpose2d, conv_transpose3d = _C.conv_transpose1d, _C.conv_transpose2d, _C.conv_transpose3d
