"""Nonlinearities as modules."""

import warnings

from ... import _C
from ..._own_init import own_init
from .. import functional
from ..init import constant_
from ..parameter import Parameter
from .module import Module


class _MaybeInPlace(Module):
    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        """Whether it writes into its input."""
        return "inplace=True" if self.inplace else ""


class ReLU(_MaybeInPlace):
    """max(x, 0)"""

    def forward(self, input):
        return functional.relu(input, self.inplace)


class SiLU(_MaybeInPlace):
    """x * sigmoid(x)"""

    def forward(self, input):
        return functional.silu(input, self.inplace)


class Mish(_MaybeInPlace):
    """x * tanh(softplus(x))"""

    def forward(self, input):
        return functional.mish(input, self.inplace)


class SELU(_MaybeInPlace):
    """elu with the constants that keep mean and variance."""

    def forward(self, input):
        return functional.selu(input, self.inplace)


class _Hard(Module):
    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


class Hardswish(_Hard):
    """x * relu6(x + 3) / 6"""

    def forward(self, input):
        return functional.hardswish(input, self.inplace)


class Hardsigmoid(_Hard):
    """relu6(x + 3) / 6"""

    def forward(self, input):
        return functional.hardsigmoid(input, self.inplace)


class RReLU(Module):
    """x, times a slope that is drawn between `lower` and `upper` where it is negative; the mean slope in evaluation."""

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower, self.upper, self.inplace = lower, upper, inplace

    def forward(self, input):
        return functional.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        """The bounds, and whether it writes into its input."""
        return f"lower={self.lower}, upper={self.upper}{', inplace=True' if self.inplace else ''}"


class LeakyReLU(Module):
    """x, times `negative_slope` where it is negative."""

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope, self.inplace = negative_slope, inplace

    def forward(self, input):
        return functional.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        """The slope, and whether it writes into its input."""
        return f"negative_slope={self.negative_slope}" + (", inplace=True" if self.inplace else "")


class ELU(Module):
    """x, or alpha * (exp(x) - 1) where it is negative."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha, self.inplace = alpha, inplace

    def forward(self, input):
        return functional.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        """alpha, and whether it writes into its input."""
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class PReLU(Module):
    """x, times a weight where it is negative; one weight, or one for each channel."""

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device=None, dtype=None) -> None:
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        self.weight = Parameter(_C.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """All weights `init`."""
        constant_(self.weight, self.init)

    def forward(self, input):
        return functional.prelu(input, self.weight)

    def extra_repr(self) -> str:
        """How many weights."""
        return f"num_parameters={self.num_parameters}"


class GLU(Module):
    """The first half along `dim` times the sigmoid of the second."""

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input):
        return functional.glu(input, self.dim)

    def extra_repr(self) -> str:
        """The dimension."""
        return f"dim={self.dim}"


class Hardtanh(Module):
    """x between `min_val` and `max_val`; `min_value` and `max_value` are their old names."""

    def __init__(
        self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False, min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        for old, name, given in (("min_value", "min_val", min_value), ("max_value", "max_val", max_value)):
            if given is not None:
                message = f"keyword argument `{old}` is deprecated and renamed to `{name}`"
                warnings.warn(message, FutureWarning, stacklevel=2)
        self.min_val = min_val if min_value is None else min_value
        self.max_val = max_val if max_value is None else max_value
        self.inplace = inplace
        if self.max_val <= self.min_val:
            raise AssertionError(f"max_val ({self.max_val}) must be greater than min_val ({self.min_val})")

    def forward(self, input):
        return functional.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        """The bounds, and whether it writes into its input."""
        return f"min_val={self.min_val}, max_val={self.max_val}" + (", inplace=True" if self.inplace else "")


class ReLU6(Hardtanh):
    """x between 0 and 6."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        """Whether it writes into its input."""
        return "inplace=True" if self.inplace else ""


class Softplus(Module):
    """log(1 + exp(beta * x)) / beta; x where beta * x is above `threshold`."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta, self.threshold = beta, threshold

    def forward(self, input):
        return functional.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        """The two numbers."""
        return f"beta={self.beta}, threshold={self.threshold}"


class LogSigmoid(Module):
    """log(sigmoid(x))"""

    def forward(self, input):
        return functional.logsigmoid(input)


class Softsign(Module):
    """x / (1 + |x|)"""

    def forward(self, input):
        return functional.softsign(input)


class Tanhshrink(Module):
    """x - tanh(x)"""

    def forward(self, input):
        return functional.tanhshrink(input)


class GELU(Module):
    """x times the probability that a normal number is below x; `approximate` "tanh" takes a formula for it."""

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input):
        return functional.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        """The way it is computed."""
        return f"approximate={self.approximate!r}"


class Tanh(Module):
    """tanh(x)"""

    def forward(self, input):
        return input.tanh()


class Sigmoid(Module):
    """1 / (1 + exp(-x))"""

    def forward(self, input):
        return input.sigmoid()


class _AlongDim(Module):
    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def extra_repr(self) -> str:
        """The dimension."""
        return f"dim={self.dim}"


class Softmax(_AlongDim):
    """exp(x) / sum(exp(x)) along `dim`."""

    def forward(self, input):
        return functional.softmax(input, self.dim, _stacklevel=5)


class LogSoftmax(_AlongDim):
    """log(softmax(x)) along `dim`."""

    def forward(self, input):
        return functional.log_softmax(input, self.dim, _stacklevel=5)


class Softmin(_AlongDim):
    """softmax(-x) along `dim`."""

    def forward(self, input):
        return functional.softmin(input, self.dim, _stacklevel=5)


class CELU(Module):
    """x, or alpha * (exp(x / alpha) - 1) where it is negative."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha, self.inplace = alpha, inplace

    def forward(self, input):
        return functional.celu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        """The slope, and whether it writes into its input."""
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class Threshold(Module):
    """x where it is above `threshold`, else `value`."""

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold, self.value, self.inplace = threshold, value, inplace

    def forward(self, input):
        return functional.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        """The numbers."""
        return f"threshold={self.threshold}, value={self.value}" + (", inplace=True" if self.inplace else "")


class _Shrink(Module):
    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        """The width."""
        return str(self.lambd)


class Softshrink(_Shrink):
    """x moved towards 0 by `lambd`."""

    def forward(self, input):
        return functional.softshrink(input, self.lambd)


class Hardshrink(_Shrink):
    """x, 0 between -lambd and lambd."""

    def forward(self, input):
        return functional.hardshrink(input, self.lambd)


class Softmax2d(Module):
    """softmax over the channels of (N, C, H, W) or (C, H, W)."""

    def forward(self, input):
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
        return functional.softmax(input, -3)


own_init(ReLU, SiLU, Mish, SELU, Hardswish, Hardsigmoid, Softmax, LogSoftmax, Softmin, Softshrink, Hardshrink)
