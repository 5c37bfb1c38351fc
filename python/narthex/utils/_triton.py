"""torch.utils._triton: questions about Triton, which compiles for no device that is here."""

from functools import cache

from .._later import never


@cache
def has_triton_package() -> bool:
    """Whether the package can be imported."""
    try:
        import triton  # noqa: F401
    except ImportError:
        return False
    return True


globals().update(never("torch.utils._triton", "no device takes its programs", (
    "has_triton", "has_triton_tma", "has_triton_tma_device", "has_datacenter_blackwell_tma_device",
    "has_triton_experimental_host_tma", "has_triton_stable_tma_api", "has_triton_tensor_descriptor_host_tma",
)))  # fmt: skip
