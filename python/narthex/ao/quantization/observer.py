"""torch.ao.quantization's names by the place where PyTorch defines them."""

from . import _NAMES, _OBSERVERS

__all__ = list(_OBSERVERS)
globals().update({name: _NAMES[name] for name in _OBSERVERS})
