"""Nonlinearities as modules."""

from .. import functional
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


class Softmax(Module):
    """exp(x) / sum(exp(x)) along `dim`."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input):
        return functional.softmax(input, self.dim, _stacklevel=5)

    def extra_repr(self) -> str:
        """The dimension."""
        return f"dim={self.dim}"


class LogSoftmax(Module):
    """log(softmax(x)) along `dim`."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input):
        return functional.log_softmax(input, self.dim, _stacklevel=5)

    def extra_repr(self) -> str:
        """The dimension."""
        return f"dim={self.dim}"
