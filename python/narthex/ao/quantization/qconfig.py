"""torch.ao.quantization's names by the place where PyTorch defines them."""

from . import _CONFIGS, _NAMES

__all__ = list(_CONFIGS)
globals().update({name: _NAMES[name] for name in _CONFIGS})
