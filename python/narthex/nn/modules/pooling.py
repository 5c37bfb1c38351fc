"""Pooling: one number for each window."""

from ..._own_init import own_init
from .. import functional
from .module import Module

__all__ = [
    "MaxPool1d", "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d", "AvgPool1d", "AvgPool2d",
    "AvgPool3d", "FractionalMaxPool2d", "FractionalMaxPool3d", "LPPool1d", "LPPool2d", "LPPool3d", "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d",
]  # fmt: skip


class _MaxPoolNd(Module):
    _function = ""

    def __init__(
        self, kernel_size, stride=None, padding=0, dilation=1, return_indices: bool = False, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride = kernel_size, stride if stride is not None else kernel_size
        self.padding, self.dilation, self.return_indices, self.ceil_mode = padding, dilation, return_indices, ceil_mode

    def forward(self, input):
        return getattr(functional, self._function)(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices
        )

    def extra_repr(self) -> str:
        """The window."""
        return (f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
                f"dilation={self.dilation}, ceil_mode={self.ceil_mode}")  # fmt: skip


class _MaxUnpoolNd(Module):
    _function, _n = "", 0

    def __init__(self, kernel_size, stride=None, padding=0) -> None:
        super().__init__()
        self.kernel_size = self._numbers(kernel_size)
        self.stride = self._numbers(stride if stride is not None else kernel_size)
        self.padding = self._numbers(padding)

    def _numbers(self, x) -> tuple:
        return tuple(x) if isinstance(x, (tuple, list)) else (x,) * self._n

    def forward(self, input, indices, output_size=None):
        return getattr(functional, self._function)(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )

    def extra_repr(self) -> str:
        """The window."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(Module):
    """The means of windows of one dimension."""

    def __init__(self, kernel_size, stride=None, padding=0, ceil_mode: bool = False, count_include_pad: bool = True):
        super().__init__()
        self.kernel_size = kernel_size if isinstance(kernel_size, tuple) else (kernel_size,)
        stride = stride if stride is not None else kernel_size
        self.stride = stride if isinstance(stride, tuple) else (stride,)
        self.padding = padding if isinstance(padding, tuple) else (padding,)
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, input):
        return functional.avg_pool1d(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad
        )

    def extra_repr(self) -> str:
        """The window."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _AvgPoolNd(Module):
    _function = ""

    def __init__(
        self, kernel_size, stride=None, padding=0, ceil_mode: bool = False, count_include_pad: bool = True,
        divisor_override=None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size, self.stride = kernel_size, stride if stride is not None else kernel_size
        self.padding, self.ceil_mode, self.count_include_pad = padding, ceil_mode, count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input):
        return getattr(functional, self._function)(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad,
            self.divisor_override,
        )  # fmt: skip

    def extra_repr(self) -> str:
        """The window."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _FractionalNd(Module):
    _function, _n = "", 0

    def __init__(
        self, kernel_size, output_size=None, output_ratio=None, return_indices: bool = False, _random_samples=None
    ) -> None:
        super().__init__()
        self._check_window(kernel_size)
        self.kernel_size, self.output_size = self._numbers(kernel_size), self._numbers(output_size)
        self.output_ratio, self.return_indices = self._numbers(output_ratio), return_indices
        self.register_buffer("_random_samples", _random_samples)
        if output_size is None and output_ratio is None:
            raise ValueError(f"{type(self).__name__} requires specifying either an output size, or a pooling ratio")
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if self.output_ratio is not None and not all(0 < ratio < 1 for ratio in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def _check_window(self, kernel_size) -> None:
        """What is refused before all else."""

    def _numbers(self, x):
        return x if x is None or isinstance(x, (tuple, list)) else (x,) * self._n

    def forward(self, input):
        return getattr(functional, self._function)(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices, self._random_samples
        )


class _LPPoolNd(Module):
    _function = ""

    def __init__(self, norm_type, kernel_size, stride=None, ceil_mode: bool = False) -> None:
        super().__init__()
        self.norm_type, self.kernel_size, self.stride, self.ceil_mode = norm_type, kernel_size, stride, ceil_mode

    def forward(self, input):
        return getattr(functional, self._function)(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )

    def extra_repr(self) -> str:
        """The norm and the window."""
        return (f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
                f"ceil_mode={self.ceil_mode}")  # fmt: skip


class _AdaptiveMaxPoolNd(Module):
    _function = ""

    def __init__(self, output_size, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size, self.return_indices = output_size, return_indices

    def forward(self, input):
        return getattr(functional, self._function)(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        """How many windows."""
        return f"output_size={self.output_size}"


class _AdaptiveAvgPoolNd(Module):
    _function = ""

    def __init__(self, output_size) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input):
        return getattr(functional, self._function)(input, self.output_size)

    def extra_repr(self) -> str:
        """How many windows."""
        return f"output_size={self.output_size}"


class MaxPool1d(_MaxPoolNd):
    """The largest numbers of windows of one dimension."""

    _function = "max_pool1d"


class MaxPool2d(_MaxPoolNd):
    """The largest numbers of windows of two dimensions."""

    _function = "max_pool2d"


class MaxPool3d(_MaxPoolNd):
    """The largest numbers of windows of three dimensions."""

    _function = "max_pool3d"


class MaxUnpool1d(_MaxUnpoolNd):
    """MaxPool the other way round, for windows of one dimension."""

    _function, _n = "max_unpool1d", 1


class MaxUnpool2d(_MaxUnpoolNd):
    """MaxPool the other way round, for windows of two dimensions."""

    _function, _n = "max_unpool2d", 2


class MaxUnpool3d(_MaxUnpoolNd):
    """MaxPool the other way round, for windows of three dimensions."""

    _function, _n = "max_unpool3d", 3


class AvgPool2d(_AvgPoolNd):
    """The means of windows of two dimensions."""

    _function = "avg_pool2d"


class AvgPool3d(_AvgPoolNd):
    """The means of windows of three dimensions."""

    _function = "avg_pool3d"


class FractionalMaxPool2d(_FractionalNd):
    """The largest numbers of random windows of two dimensions."""

    _function, _n = "fractional_max_pool2d", 2


class FractionalMaxPool3d(_FractionalNd):
    """The largest numbers of random windows of three dimensions."""

    _function, _n = "fractional_max_pool3d", 3

    def _check_window(self, kernel_size) -> None:
        if min(self._numbers(kernel_size)) <= 0:
            raise ValueError(f"kernel_size must be greater than 0, but got {kernel_size}")


class LPPool1d(_LPPoolNd):
    """The norms of windows of one dimension."""

    _function = "lp_pool1d"


class LPPool2d(_LPPoolNd):
    """The norms of windows of two dimensions."""

    _function = "lp_pool2d"


class LPPool3d(_LPPoolNd):
    """The norms of windows of three dimensions."""

    _function = "lp_pool3d"


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """The largest numbers of so many windows of one dimension."""

    _function = "adaptive_max_pool1d"


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """The largest numbers of so many windows of two dimensions."""

    _function = "adaptive_max_pool2d"


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """The largest numbers of so many windows of three dimensions."""

    _function = "adaptive_max_pool3d"


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """The means of so many windows of one dimension."""

    _function = "adaptive_avg_pool1d"


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """The means of so many windows of two dimensions."""

    _function = "adaptive_avg_pool2d"


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """The means of so many windows of three dimensions."""

    _function = "adaptive_avg_pool3d"


own_init(AvgPool2d, AvgPool3d, MaxUnpool1d, MaxUnpool2d, MaxUnpool3d, FractionalMaxPool2d, FractionalMaxPool3d)
