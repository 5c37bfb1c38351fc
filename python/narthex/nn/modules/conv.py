"""Convolutions over one, two or three dimensions, and transposed ones."""

import math
from itertools import repeat

from ... import _C
from ..._own_init import own_init
from .. import functional, init
from ..parameter import Parameter
from .module import Module

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]


def numbers(x, n: int) -> tuple:
    """A number for each of `n` dimensions; one stands for all."""
    return tuple(x) if isinstance(x, (tuple, list)) else tuple(repeat(x, n))


class _ConvNd(Module):
    """What convolutions share; `_n` is the number of dimensions of space."""

    _n, _transposed = 0, False
    __constants__ = ["stride", "padding", "dilation", "groups", "padding_mode", "output_padding", "in_channels",
                     "out_channels", "kernel_size"]  # fmt: skip

    def __init__(
        self, in_channels, out_channels, kernel_size, stride, padding, dilation, output_padding, groups, bias,
        padding_mode, device, dtype,
    ) -> None:  # fmt: skip
        super().__init__()
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        if in_channels % groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups != 0:
            raise ValueError("out_channels must be divisible by groups")
        n = self._n
        stride, kernel_size, dilation = numbers(stride, n), numbers(kernel_size, n), numbers(dilation, n)
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(f"Invalid padding string {padding!r}, should be one of {{'valid', 'same'}}")
            if padding == "same" and any(s != 1 for s in stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
        else:
            padding = numbers(padding, n)
        modes = {"zeros", "reflect", "replicate", "circular"}
        if padding_mode not in modes:
            raise ValueError(f"padding_mode must be one of {modes}, but got padding_mode='{padding_mode}'")
        self.in_channels, self.out_channels, self.kernel_size = in_channels, out_channels, kernel_size
        self.stride, self.padding, self.dilation = stride, padding, dilation
        self.transposed, self.output_padding = self._transposed, numbers(output_padding, n)
        self.groups, self.padding_mode = groups, padding_mode
        self._reversed_padding_repeated_twice = self._around()
        first, second = (in_channels, out_channels) if self._transposed else (out_channels, in_channels)
        self.weight = Parameter(_C.empty((first, second // groups, *kernel_size), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(_C.empty((out_channels,), device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _around(self) -> list:
        """The padding as functional.pad wants it."""
        if not isinstance(self.padding, str):
            return [p for p in reversed(self.padding) for _ in range(2)]
        around = []
        for d, k in zip(reversed(self.dilation), reversed(self.kernel_size)):
            total = d * (k - 1) if self.padding == "same" else 0
            around += [total // 2, total - total // 2]
        return around

    def reset_parameters(self) -> None:
        """Draws new values: uniform on +-1 / sqrt(inputs of one output)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def _conv_forward(self, input, weight, bias):
        function = getattr(functional, f"conv{self._n}d")
        if self.padding_mode == "zeros":
            return function(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)
        padded = functional.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
        return function(padded, weight, bias, self.stride, (0,) * self._n, self.dilation, self.groups)

    def forward(self, input):
        return self._conv_forward(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """What differs from the usual."""
        s = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        none = (0,) * self._n
        for name, usual in (("padding", none), ("dilation", (1,) * self._n), ("output_padding", none), ("groups", 1)):
            if getattr(self, name) != usual:
                s += f", {name}={getattr(self, name)}"
        if self.bias is None:
            s += ", bias=False"
        return s if self.padding_mode == "zeros" else s + f", padding_mode={self.padding_mode}"

    def __setstate__(self, state):
        super().__setstate__(state)
        self.__dict__.setdefault("padding_mode", "zeros")


class _Conv(_ConvNd):
    def __init__(
        self, in_channels: int, out_channels: int, kernel_size, stride=1, padding=0, dilation=1, groups: int = 1,
        bias: bool = True, padding_mode: str = "zeros", device=None, dtype=None,
    ) -> None:  # fmt: skip
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, 0, groups, bias,
                         padding_mode, device, dtype)  # fmt: skip


class Conv1d(_Conv):
    """Each place of the result is a sum over a window of the last dimension; weight is (out, in / groups, k)."""

    _n = 1


class Conv2d(_Conv):
    """Each place of the result is a sum over a window of two dimensions; weight is (out, in / groups, h, w)."""

    _n = 2


class Conv3d(_Conv):
    """Each place of the result is a sum over a window of the last three dimensions."""

    _n = 3


class _ConvTransposeNd(_ConvNd):
    _transposed = True

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size, stride=1, padding=0, output_padding=0,
        groups: int = 1, bias: bool = True, dilation=1, padding_mode: str = "zeros", device=None, dtype=None,
    ) -> None:  # fmt: skip
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, output_padding, groups,
                         bias, padding_mode, device, dtype)  # fmt: skip

    def _output_padding(self, input, output_size) -> list:
        """The padding that makes the result `output_size`."""
        if output_size is None:
            return list(self.output_padding)
        n, n_before = self._n, input.dim() - self._n
        if len(output_size) == n_before + n:
            output_size = output_size[n_before:]
        if len(output_size) != n:
            raise ValueError(
                f"ConvTranspose{n}D: for {input.dim()}D input, output_size must have {n} or {n_before + n} elements "
                f"(got {len(output_size)})"
            )
        least = []
        for k in range(n):
            size = (input.size(k + n_before) - 1) * self.stride[k] - 2 * self.padding[k]
            least.append(size + self.dilation[k] * (self.kernel_size[k] - 1) + 1)
        most = [least[k] + self.stride[k] - 1 for k in range(n)]
        if any(not low <= size <= high for size, low, high in zip(output_size, least, most)):
            raise ValueError(
                f"requested an output size of {output_size}, but valid sizes range from {least} to {most} "
                f"(for an input of {input.size()[2:]})"
            )
        return [size - low for size, low in zip(output_size, least)]

    def forward(self, input, output_size=None):
        output_padding = self._output_padding(input, output_size)
        function = getattr(functional, f"conv_transpose{self._n}d")
        return function(input, self.weight, self.bias, self.stride, self.padding, output_padding, self.groups,
                        self.dilation)  # fmt: skip


class ConvTranspose1d(_ConvTransposeNd):
    """Each place of the input adds to a window of the result; weight is (in, out / groups, k)."""

    _n = 1


class ConvTranspose2d(_ConvTransposeNd):
    """Each place of the input adds to a window of the result; weight is (in, out / groups, h, w)."""

    _n = 2


class ConvTranspose3d(_ConvTransposeNd):
    """Each place of the input adds to a window of the result."""

    _n = 3


own_init(Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)


class _ConvTransposeMixin(_ConvTransposeNd):
    """An older name, for who asks isinstance()."""
