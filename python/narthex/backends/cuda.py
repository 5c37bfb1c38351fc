"""Settings of CUDA's kernels; there are none here, and the settings change nothing."""

from .._absent import getter
from .._precision import Products

matmul = Products(
    allow_fp16_reduced_precision_reduction=True,
    allow_bf16_reduced_precision_reduction=True,
    allow_fp16_accumulation=False,
)


def is_built() -> bool:
    """False."""
    return False


_fused = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}


def flash_sdp_enabled() -> bool:
    """What enable_flash_sdp set."""
    return _fused["flash"]


def enable_flash_sdp(enabled: bool) -> None:
    """Kept only: there is one way in which attention is computed."""
    _fused["flash"] = bool(enabled)


def mem_efficient_sdp_enabled() -> bool:
    """What enable_mem_efficient_sdp set."""
    return _fused["mem_efficient"]


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Kept only: there is one way in which attention is computed."""
    _fused["mem_efficient"] = bool(enabled)


def math_sdp_enabled() -> bool:
    """What enable_math_sdp set."""
    return _fused["math"]


def enable_math_sdp(enabled: bool) -> None:
    """Kept only: there is one way in which attention is computed."""
    _fused["math"] = bool(enabled)


def cudnn_sdp_enabled() -> bool:
    """What enable_cudnn_sdp set."""
    return _fused["cudnn"]


def enable_cudnn_sdp(enabled: bool) -> None:
    """Kept only: there is one way in which attention is computed."""
    _fused["cudnn"] = bool(enabled)


__getattr__ = getter("torch.backends.cuda")
