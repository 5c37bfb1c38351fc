"""torch.ao.nn.quantizable: layers that observe inside are not there; their names are."""

from ..._later import names

_NAMES = ("LSTM", "LSTMCell", "MultiheadAttention")
globals().update(names("torch.ao.nn.quantizable", "use the layers of torch.nn", _NAMES))
__all__ = list(_NAMES)
