"""torch._refs.fft: torch.fft's functions."""

from . import _same

__getattr__ = _same.getter(".fft", "narthex.fft")
