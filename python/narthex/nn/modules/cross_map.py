"""CrossMapLRN2d, with the windows that PyTorch's has, forwards and backwards."""

from ... import _C
from ...autograd.function import Function, once_differentiable
from .module import Module


def _windows(channels: int, size: int, like):
    """(channels, channels): 1 where the row's sum of squares has the column's.

    Around a channel lie as many on both sides; channel 0 stays in all sums, as it does in PyTorch.
    """
    half = int((size - 1) / 2 + 1)
    at = _C.arange(channels)
    seen = (at.view(-1, 1) - at).abs() < half
    seen[:, 0] = True
    return seen.to(like.dtype)


def _windows_back(channels: int, size: int, like):
    """The same for the backward: `size` channels from a little before the column's on."""
    before = int(size - (size - 1) / 2)
    if before + channels > channels + size - 1:
        raise RuntimeError(
            f"start ({before}) + length ({channels}) exceeds dimension size ({channels + size - 1})."
        )  # fmt: skip
    at = _C.arange(channels)
    first = at.view(-1, 1) - before
    return ((at >= first) & (at < first + size)).to(like.dtype)


def _sums(windows, x):
    """Of (N, C, H, W): the sums over channels that the rows of `windows` name."""
    return (windows @ x.flatten(2)).view(x.shape)


class CrossMapLRN2dFunction(Function):
    """x / (k + alpha / size * squares in a window of channels) ** beta"""

    @staticmethod
    def forward(ctx, input, size, alpha=1e-4, beta=0.75, k=1):
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead.")
        scale = k + alpha / size * _sums(_windows(input.shape[1], size, input), input * input)
        output = input * scale**-beta
        ctx.numbers = (size, alpha, beta)
        ctx.save_for_backward(input, output, scale)
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (size, alpha, beta), (input, output, scale) = ctx.numbers, ctx.saved_tensors
        back = _sums(_windows_back(input.shape[1], size, input), grad * output / scale)
        return grad * scale**-beta - 2 * alpha * beta / size * input * back, None, None, None, None


class CrossMapLRN2d(Module):
    """Each element over (k + alpha / size * the squares of the channels around it) ** beta."""

    def __init__(self, size: int, alpha: float = 0.0001, beta: float = 0.75, k: float = 1) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input):
        return CrossMapLRN2dFunction.apply(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        """The numbers."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
