"""torch.ao.nn.quantized: operators that are observed compute in floats; layers over integers raise."""

from .... import nn
from ...._absent import getter
from ...._later import names


class FloatFunctional(nn.Module):
    """Operators between tensors as a module, so that an observer may look at their results."""

    def __init__(self) -> None:
        super().__init__()
        self.activation_post_process = nn.Identity()

    def forward(self, x):
        """Raises RuntimeError: its operators are called by their names."""
        raise RuntimeError("FloatFunctional is not intended to use the 'forward'. Please use the underlying operation")

    def add(self, x, y):
        """x + y"""
        return self.activation_post_process(x + y)

    def add_scalar(self, x, y):
        """x + y, unobserved"""
        return x + y

    def mul(self, x, y):
        """x * y"""
        return self.activation_post_process(x * y)

    def mul_scalar(self, x, y):
        """x * y, unobserved"""
        return x * y

    def cat(self, x, dim: int = 0):
        """torch.cat(x, dim)"""
        from .... import _C

        return self.activation_post_process(_C.cat(x, dim))

    def add_relu(self, x, y):
        """relu(x + y)"""
        return self.activation_post_process(nn.functional.relu(x + y))

    def matmul(self, x, y):
        """x @ y"""
        return self.activation_post_process(x @ y)


class FXFloatFunctional(FloatFunctional):
    """The same, unobserved."""


_LAYERS = (
    "BatchNorm2d", "BatchNorm3d", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d",
    "ConvTranspose3d", "DeQuantize", "Dropout", "ELU", "Embedding", "EmbeddingBag", "GroupNorm", "Hardswish",
    "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LSTM", "LayerNorm", "LeakyReLU", "Linear",
    "MultiheadAttention", "PReLU", "QFunctional", "Quantize", "ReLU6", "Sigmoid", "Softmax",
)  # fmt: skip
__all__ = [*_LAYERS, "FXFloatFunctional", "FloatFunctional"]
globals().update(names("torch.ao.nn.quantized", "models compute in floats", _LAYERS))
_absent = getter("torch.ao.nn.quantized")


def __getattr__(name: str):
    if name in ("dynamic", "functional", "modules"):
        from importlib import import_module

        return import_module(f"{__name__}.{name}")
    return _absent(name)
