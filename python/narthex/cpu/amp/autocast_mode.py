"""torch.cpu.amp.autocast."""

from ... import _C, amp


class autocast(amp.autocast):
    """torch.amp.autocast("cpu", ...)"""

    def __init__(self, enabled: bool = True, dtype=_C.bfloat16, cache_enabled: bool = True) -> None:
        super().__init__("cpu", dtype, enabled, cache_enabled)
