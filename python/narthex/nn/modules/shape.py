"""Layers that change the shape alone: Flatten and Unflatten, shuffling of pixels, and padding."""

from ..._own_init import own_init
from .. import functional
from .module import Module


class Flatten(Module):
    """Dimensions `start_dim` to `end_dim` become one."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input):
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """The first and the last of them."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Dimension `dim` becomes several, of `unflattened_size`."""

    def __init__(self, dim: int, unflattened_size) -> None:
        super().__init__()
        if not isinstance(unflattened_size, (tuple, list)):
            kind = type(unflattened_size).__name__
            raise TypeError(f"unflattened_size must be a tuple of ints, but found type {kind}")
        for at, size in enumerate(unflattened_size):
            if not isinstance(size, int):
                kind = type(size).__name__
                raise TypeError(f"unflattened_size must be tuple of ints, but found element of type {kind} at pos {at}")
        self.dim, self.unflattened_size = dim, unflattened_size

    def forward(self, input):
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        """The dimension and its parts."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class PixelShuffle(Module):
    """Channels become places: of each r*r channels one of r times the height and width."""

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input):
        return functional.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        """r"""
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """PixelShuffle the other way round."""

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input):
        return functional.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        """r"""
        return f"downscale_factor={self.downscale_factor}"


class CosineSimilarity(Module):
    """The cosine of the angle between the vectors along `dim`."""

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1, x2):
        return functional.cosine_similarity(x1, x2, self.dim, self.eps)


class _Pad(Module):
    """Elements around the last `_n` dimensions, by `padding` everywhere, or before and behind each, last first."""

    _n, _mode = 0, "constant"

    def __init__(self, padding) -> None:
        super().__init__()
        self.padding = tuple(padding) if hasattr(padding, "__iter__") else (padding,) * (2 * self._n)

    def forward(self, input):
        return functional.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        """How much."""
        return f"{self.padding}"


class _ConstantPad(_Pad):
    def __init__(self, padding, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input):
        return functional.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        """How much, and what."""
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPad):
    """`value` around the last dimension."""

    _n = 1


class ConstantPad2d(_ConstantPad):
    """`value` around the last two dimensions."""

    _n = 2


class ConstantPad3d(_ConstantPad):
    """`value` around the last three dimensions."""

    _n = 3


class _Zeros(_ConstantPad):
    def __init__(self, padding) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        """How much."""
        return f"{self.padding}"


class ZeroPad1d(_Zeros, ConstantPad1d):
    """Zeros around the last dimension."""


class ZeroPad2d(_Zeros, ConstantPad2d):
    """Zeros around the last two dimensions."""


class ZeroPad3d(_Zeros, ConstantPad3d):
    """Zeros around the last three dimensions."""


class ReflectionPad1d(_Pad):
    """Elements mirrored at the border around the last dimension."""

    _n, _mode = 1, "reflect"


class ReflectionPad2d(_Pad):
    """Elements mirrored at the border around the last two dimensions."""

    _n, _mode = 2, "reflect"


class ReflectionPad3d(_Pad):
    """Elements mirrored at the border around the last three dimensions."""

    _n, _mode = 3, "reflect"


class ReplicationPad1d(_Pad):
    """The border's elements around the last dimension."""

    _n, _mode = 1, "replicate"


class ReplicationPad2d(_Pad):
    """The border's elements around the last two dimensions."""

    _n, _mode = 2, "replicate"


class ReplicationPad3d(_Pad):
    """The border's elements around the last three dimensions."""

    _n, _mode = 3, "replicate"


class CircularPad1d(_Pad):
    """The elements of the other side around the last dimension."""

    _n, _mode = 1, "circular"


class CircularPad2d(_Pad):
    """The elements of the other side around the last two dimensions."""

    _n, _mode = 2, "circular"


class CircularPad3d(_Pad):
    """The elements of the other side around the last three dimensions."""

    _n, _mode = 3, "circular"


own_init(
    ConstantPad1d, ConstantPad2d, ConstantPad3d, ZeroPad1d, ZeroPad2d, ZeroPad3d, ReflectionPad1d, ReflectionPad2d,
    ReflectionPad3d, ReplicationPad1d, ReplicationPad2d, ReplicationPad3d, CircularPad1d, CircularPad2d, CircularPad3d,
)  # fmt: skip
