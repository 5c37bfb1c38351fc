"""torch.ao.nn.qat: layers that train for integers are not there; their names are."""

from ..._later import names

_NAMES = ("Conv1d", "Conv2d", "Conv3d", "Embedding", "EmbeddingBag", "Linear")
globals().update(names("torch.ao.nn.qat", "models compute in floats", _NAMES))
__all__ = list(_NAMES)
