"""torch.xpu: there is none. Questions are answered, the rest raises."""

from ._absent import getter
from ._no_device import (
    device_count,
    empty_cache,
    is_available,
    is_current_stream_capturing,
    is_initialized,
    manual_seed,
    manual_seed_all,
    refusing,
)

__all__ = [
    "current_device", "device_count", "empty_cache", "get_device_capability", "get_device_name", "is_available",
    "is_current_stream_capturing", "is_initialized", "manual_seed", "manual_seed_all", "set_device", "synchronize",
]  # fmt: skip

current_device = get_device_capability = get_device_name = set_device = synchronize = refusing("xpu")
__getattr__ = getter("torch.xpu")
