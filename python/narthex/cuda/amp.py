"""torch.cuda.amp: the older names of torch.amp with the device "cuda"."""

from warnings import warn

from .. import amp


class GradScaler(amp.GradScaler):
    """torch.amp.GradScaler("cuda", ...)"""

    def __init__(self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000, enabled=True):
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


class autocast(amp.autocast):
    """torch.amp.autocast("cuda", ...)"""

    def __init__(self, enabled: bool = True, dtype=None, cache_enabled: bool = True) -> None:
        super().__init__("cuda", dtype, enabled, cache_enabled)


def _older(name: str) -> None:
    warn(
        f"`torch.cuda.amp.{name}(args...)` is deprecated. "
        f"Please use `torch.amp.{name}(args..., device_type='cuda')` instead.",
        FutureWarning,
        stacklevel=3,
    )


def custom_fwd(fwd=None, *, cast_inputs=None):
    """torch.amp.custom_fwd(..., device_type="cuda")"""
    _older("custom_fwd")
    return amp.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd):
    """torch.amp.custom_bwd(..., device_type="cuda")"""
    _older("custom_bwd")
    return amp.custom_bwd(bwd, device_type="cuda")
