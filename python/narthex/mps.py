"""torch.mps: there is none. Questions are answered, the rest raises."""

from ._absent import getter
from ._no_device import device_count, empty_cache, is_available, manual_seed, refusing

__all__ = ["device_count", "empty_cache", "is_available", "manual_seed", "synchronize"]

synchronize = refusing("mps")
__getattr__ = getter("torch.mps")
