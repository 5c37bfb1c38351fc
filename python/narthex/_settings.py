"""Settings that PyTorch's programs write and read back."""

import warnings

__all__ = [
    "are_deterministic_algorithms_enabled", "get_float32_matmul_precision", "get_num_interop_threads",
    "is_deterministic_algorithms_warn_only_enabled", "set_default_device", "set_float32_matmul_precision",
    "set_num_interop_threads", "use_deterministic_algorithms",
]  # fmt: skip

_kept = {"precision": "highest", "deterministic": False, "warn_only": False, "interop_threads": 1}


def set_float32_matmul_precision(precision: str) -> None:
    """Kept only: products of float32 are computed in float32 whatever is allowed."""
    if precision in ("highest", "high", "medium"):
        _kept["precision"] = precision
    else:
        warnings.warn(f"{precision} is not one of 'highest', 'high', or 'medium'; nothing changes", stacklevel=2)


def get_float32_matmul_precision() -> str:
    """What set_float32_matmul_precision was given."""
    return _kept["precision"]


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Kept only: every operator gives the same numbers each time."""
    _kept["deterministic"], _kept["warn_only"] = bool(mode), bool(warn_only)


def are_deterministic_algorithms_enabled() -> bool:
    """What use_deterministic_algorithms was given."""
    return _kept["deterministic"]


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """What use_deterministic_algorithms was given as warn_only."""
    return _kept["warn_only"]


def set_num_interop_threads(n: int) -> None:
    """Kept only: operators run one after the other."""
    if n <= 0:
        raise RuntimeError("set_num_interop_threads: expected a positive number of threads")
    _kept["interop_threads"] = n


def get_num_interop_threads() -> int:
    """What set_num_interop_threads was given."""
    return _kept["interop_threads"]


def set_default_device(device) -> None:
    """Only the CPU, or None for it, so far: raises NotImplementedError for another device."""
    if device is not None and str(device).partition(":")[0] != "cpu":
        raise NotImplementedError(f"set_default_device: {device} is not there yet; pass device= to the factories")
