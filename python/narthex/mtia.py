"""torch.mtia: there is none. Questions are answered, the rest raises."""

from ._absent import getter
from ._no_device import device_count, empty_cache, is_available, is_initialized, manual_seed, manual_seed_all, refusing

__all__ = [
    "current_device", "device_count", "empty_cache", "init", "is_available", "is_initialized", "manual_seed",
    "manual_seed_all", "synchronize",
]  # fmt: skip

current_device = init = synchronize = refusing("mtia")
__getattr__ = getter("torch.mtia")
