"""torch.amp: mixed precision. Which operators are cast stands in their entries (the `autocast` rows in ops/)."""

from .._absent import getter
from .autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from .grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]

__getattr__ = getter("torch.amp")
