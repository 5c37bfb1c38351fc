"""torch._refs.special: torch.special's functions."""

from . import _same

__getattr__ = _same.getter(".special", "narthex.special")
