"""Which kernels this processor gets."""

__all__ = ["get_cpu_capability"]


def get_cpu_capability() -> str:
    """The level in PyTorch's words: "DEFAULT", "AVX2" or "AVX512"."""
    from .. import _C

    return {"v3": "AVX2", "v4": "AVX512"}.get(_C.level_name(), "DEFAULT")
