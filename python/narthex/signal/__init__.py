"""torch.signal: the windows."""

from . import windows
