"""torch.ao.quantization's names by the place where PyTorch defines them."""

from . import _FAKES, _NAMES

__all__ = list(_FAKES)
globals().update({name: _NAMES[name] for name in _FAKES})
