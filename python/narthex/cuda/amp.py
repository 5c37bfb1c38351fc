"""torch.cuda.amp: the older names of torch.amp with the device "cuda"."""

from .. import amp


class GradScaler(amp.GradScaler):
    """torch.amp.GradScaler("cuda", ...)"""

    def __init__(self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000, enabled=True):
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


class autocast(amp.autocast):
    """torch.amp.autocast("cuda", ...)"""

    def __init__(self, enabled: bool = True, dtype=None, cache_enabled: bool = True) -> None:
        super().__init__("cuda", dtype, enabled, cache_enabled)
