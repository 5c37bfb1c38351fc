"""torch.cuda.memory: what torch.cuda says of memory, by the names of its module. None is held."""

from . import (
    empty_cache,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_stats,
    reset_max_memory_allocated,
    reset_peak_memory_stats,
)

__all__ = [
    "empty_cache", "max_memory_allocated", "max_memory_reserved", "mem_get_info", "memory_allocated",
    "memory_reserved", "memory_stats", "reset_max_memory_allocated", "reset_peak_memory_stats",
]  # fmt: skip
