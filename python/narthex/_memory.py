"""The memory of a device by PyTorch's names: what the caching allocator counts, and how to empty it.

On the CPU, storages of up to 2,048 bytes lie in their header and are not counted, and what lies under 64 KiB comes from
the C library: it is counted as allocated and not as reserved.
"""

from collections.abc import Callable

from . import _C

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def memory_stats(device="cpu") -> dict:
    """{"allocated_bytes.all.current": bytes, ...}: name, pool (all, large_pool, small_pool), metric (current, peak)."""
    return _C.memory_stats(device)


def memory_stats_as_nested_dict(device="cpu") -> dict:
    """The same by name, pool and metric."""
    nested: dict = {}
    for key, value in memory_stats(device).items():
        *path, last = key.split(".")
        at = nested
        for name in path:
            at = at.setdefault(name, {})
        at[last] = value
    return nested


def memory_allocated(device="cpu") -> int:
    """Bytes that tensors take now."""
    return memory_stats(device)["allocated_bytes.all.current"]


def max_memory_allocated(device="cpu") -> int:
    """The most bytes that tensors took since the start or reset_peak_memory_stats()."""
    return memory_stats(device)["allocated_bytes.all.peak"]


def memory_reserved(device="cpu") -> int:
    """Bytes that the allocator has from the device, unused ones included."""
    return memory_stats(device)["reserved_bytes.all.current"]


def max_memory_reserved(device="cpu") -> int:
    """The most bytes that it had since the start or reset_peak_memory_stats()."""
    return memory_stats(device)["reserved_bytes.all.peak"]


def reset_peak_memory_stats(device="cpu") -> None:
    """Peaks begin at what is in use now."""
    _C.memory_reset_peaks(device)


def reset_accumulated_memory_stats(device="cpu") -> None:
    """What was ever allocated and freed is counted from 0."""
    _C.memory_reset_accumulated(device)


def empty_cache(device="cpu") -> None:
    """Unused memory goes back to the device: the segments of which no tensor has a part."""
    _C.memory_empty_cache(device)


def mem_get_info(device="cpu") -> tuple[int, int]:
    """(free bytes, bytes in all) of the device."""
    return _C.memory_info(device)


def set_per_process_memory_fraction(fraction: float, device="cpu") -> None:
    """Tensors may take this part of the device's memory: beyond it, allocating raises MemoryError."""
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    _C.memory_set_limit(device, max(1, int(fraction * mem_get_info(device)[1])))


def _size(n: int) -> str:
    unit = 0
    while n >= 10240 and unit < len(_UNITS) - 1:
        n, unit = n // 1024, unit + 1
    return f"{n:7d} {_UNITS[unit]:3s}"


def memory_summary(device="cpu", abbreviated: bool = False) -> str:
    """The counters as a table, for people; abbreviated: without the two pools."""
    stats = memory_stats_as_nested_dict(device)
    head = f"{'Metric':<24}" + "".join(f"{name:>16}" for name in ("Cur Usage", "Peak Usage", "Tot Alloc", "Tot Freed"))
    lines = [f"Memory of {device}: {stats['num_ooms']} requests refused, {stats['num_alloc_retries']} retries", head]
    for name, pools in ((name, value) for name, value in stats.items() if isinstance(value, dict)):
        for pool, metrics in pools.items():
            if abbreviated and pool != "all":
                continue
            label = name if pool == "all" else f"      from {pool.replace('_', ' ')}"
            texts = (_size(value) if "bytes" in name else f"{value:d}" for value in metrics.values())
            lines.append(f"{label:<24}" + "".join(f"{text:>16}" for text in texts))
    return "\n".join(lines) + "\n"


def of_device(name: str, place: Callable):
    """The function of that name as modules of devices have it: of the device place(device), None where none is said."""
    function = globals()[name]

    def asked(device=None):
        return function(place(device))

    asked.__name__ = asked.__qualname__ = name
    asked.__doc__ = function.__doc__
    return asked
