"""torch.amp: mixed precision. Switched off it can be left in a program; switched on it is not there yet."""

import warnings

from .._absent import getter

__all__ = ["GradScaler", "autocast", "is_autocast_available"]


def is_autocast_available(device_type: str) -> bool:
    """False: no device has it yet."""
    return False


class autocast:
    """With `enabled=False` a block or function that runs as it stands; otherwise raises NotImplementedError.

    For "cuda", which is not there, it warns and does nothing, as PyTorch without CUDA does.
    """

    def __init__(self, device_type: str, dtype=None, enabled: bool = True, cache_enabled: bool | None = None) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        if enabled and device_type == "cuda":
            warnings.warn("User provided device_type of 'cuda', but CUDA is not available. Disabling", stacklevel=2)
        elif enabled:
            raise NotImplementedError(
                f"autocast: mixed precision on {device_type} is not there yet; pass enabled=False or leave it out"
            )
        self.device, self.fast_dtype = device_type, dtype

    def __enter__(self):
        return self

    def __exit__(self, *exception) -> bool:
        return False

    def __call__(self, function):
        return function


class GradScaler:
    """A scaler that is off: losses and gradients pass unchanged. Without CUDA PyTorch's is off as well."""

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if enabled and device != "cuda":
            raise NotImplementedError(f"GradScaler: scaling on {device} is not there yet; pass enabled=False")
        if enabled:
            warnings.warn("torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.", stacklevel=2)
        self._device, self._init_scale, self._enabled = device, init_scale, False
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval = growth_interval

    def scale(self, outputs):
        """`outputs` as they are."""
        return outputs

    def unscale_(self, optimizer) -> None:
        """Nothing."""

    def step(self, optimizer, *args, **kwargs):
        """`optimizer.step(*args, **kwargs)`"""
        return optimizer.step(*args, **kwargs)

    def update(self, new_scale=None) -> None:
        """Nothing."""

    def is_enabled(self) -> bool:
        """False."""
        return False

    def get_scale(self) -> float:
        """1.0"""
        return 1.0

    def get_growth_factor(self) -> float:
        """The factor that was given."""
        return self._growth_factor

    def get_backoff_factor(self) -> float:
        """The factor that was given."""
        return self._backoff_factor

    def get_growth_interval(self) -> int:
        """The interval that was given."""
        return self._growth_interval

    def state_dict(self) -> dict:
        """Empty."""
        return {}

    def load_state_dict(self, state_dict: dict) -> None:
        """Nothing."""


__getattr__ = getter("torch.amp")
