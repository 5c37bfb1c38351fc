"""torch._refs.nn.functional: torch.nn.functional's functions."""

from .. import _same

__getattr__ = _same.getter(".nn.functional", "narthex.nn.functional")
