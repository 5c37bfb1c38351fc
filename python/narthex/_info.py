"""`narthex info`: what the library found on this machine, a row a fact, and what changes each of them."""

import os

from . import _C


def rows() -> list:
    """[(what, its value, which flag or call changes it), ...]"""
    from . import narthex_version

    return [
        ("version", narthex_version, "of this installation"),
        ("level", _C.level_name(), "instruction sets of the kernels; NARTHEX_LEVEL names another one"),
        ("blas", _blas(), "library of matrix products; NARTHEX_BLAS names another one"),
        ("threads", _threads(), "that an operator may use; torch.set_num_threads(n)"),
        ("memory", f"{_resident()} MiB resident", "of this process, after import"),
        ("allocator", _allocator(), "of segments that storages lie in; NARTHEX_MEMORY_CACHE, NARTHEX_MEMORY_LIMIT"),
        ("caches", "none on disk", "what is compiled lives in the process; torch.compiler.reset() forgets it"),
        ("plugins", _plugins(), "devices; NARTHEX_PLUGINS names their libraries"),
        *_set_flags(),
    ]


def _blas() -> str:
    """The library that a product has opened."""
    _C.mm(_C.ones(64, 64), _C.ones(64, 64))
    with open("/proc/self/maps") as maps:
        paths = {line.split()[-1] for line in maps if "blas" in line.rpartition("/")[2]}
    given = next((value for name, _, value, _ in _C.flags() if name == "blas"), None)
    return ", ".join(sorted(paths)) or given or "none was found: a product of our own"


def _threads() -> str:
    n, why = _C.explain_threads()
    return f"{n} ({os.cpu_count()} processors online; {why})"


def _allocator() -> str:
    """What it keeps, and the most that it may keep and take."""
    stats = _C.memory_stats("cpu")
    kept = stats["reserved_bytes.all.current"] >> 20
    idle, limit = (f"{stats[name] >> 20} MiB" if stats[name] >= 0 else "any" for name in ("cache_limit", "limit"))
    return f"{kept} MiB kept, at most {idle} of it idle; may take {limit}"


def _resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20


def _plugins() -> str:
    return ", ".join(f"{name} ({_C.device_count(name)})" for name in _C.device_types())


def _set_flags() -> list:
    """The flags that are set: `narthex flags` has all."""
    return [(variable, repr(value), meaning) for _, variable, value, meaning in _C.flags() if value]
