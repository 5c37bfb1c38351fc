"""torch._refs.linalg: torch.linalg's functions."""

from . import _same

__getattr__ = _same.getter(".linalg", "narthex.linalg")
