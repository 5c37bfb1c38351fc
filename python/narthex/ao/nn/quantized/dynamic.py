"""torch.ao.nn.quantized.dynamic: layers whose weights are integers are not there; their names are."""

from ...._later import names

_NAMES = (
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "GRU", "GRUCell", "LSTM",
    "LSTMCell", "Linear", "RNNCell",
)  # fmt: skip
globals().update(names("torch.ao.nn.quantized.dynamic", "models compute in floats", _NAMES))
__all__ = list(_NAMES)
