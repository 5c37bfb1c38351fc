"""torch.utils._triton: questions about Triton, which compiles for no device that is here."""

from functools import cache


@cache
def has_triton_package() -> bool:
    """Whether the package can be imported."""
    try:
        import triton  # noqa: F401
    except ImportError:
        return False
    return True


def has_triton() -> bool:
    """False: no device takes its programs."""
    return False


def has_triton_tma() -> bool:
    """False."""
    return False


def has_triton_tma_device() -> bool:
    """False."""
    return False


def has_datacenter_blackwell_tma_device() -> bool:
    """False."""
    return False


def has_triton_experimental_host_tma() -> bool:
    """False."""
    return False


def has_triton_stable_tma_api() -> bool:
    """False."""
    return False


def has_triton_tensor_descriptor_host_tma() -> bool:
    """False."""
    return False
