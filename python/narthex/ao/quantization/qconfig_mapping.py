"""torch.ao.quantization's names by the place where PyTorch defines them."""

from . import _MAPPINGS, _NAMES

__all__ = list(_MAPPINGS)
globals().update({name: _NAMES[name] for name in _MAPPINGS})
