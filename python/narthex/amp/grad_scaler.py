"""GradScaler: losses are scaled up, gradients down again, and steps with infinite gradients are left out."""

import warnings

from .. import _C
from ..autograd.grad_mode import no_grad

_EARLIER = "This may indicate your script did not use scaler.scale(loss or outputs) earlier in the iteration."


class GradScaler:
    """Scales so that small gradients survive in float16. With `enabled=False`, and for "cuda", all passes unchanged.

    The scale is a Python number, not a tensor: asking for it costs nothing, an unscaling looks at each gradient once.
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if enabled and device == "cuda":
            warnings.warn("torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.", stacklevel=2)
            enabled = False
        if enabled and growth_factor <= 1.0:
            raise AssertionError("The growth factor must be > 1.0.")
        if enabled and backoff_factor >= 1.0:
            raise AssertionError("The backoff factor must be < 1.0.")
        self._device, self._enabled, self._init_scale = device, enabled, init_scale
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval, self._growth_tracker = growth_interval, 0
        self._scale = None
        self._found: dict = {}  # id of an optimizer -> whether a gradient was not finite
        self._stepped: set = set()

    def _check(self, what: str) -> None:
        if self._scale is None:
            raise AssertionError(f"Attempted {what} but _scale is None.  " + _EARLIER)

    def scale(self, outputs):
        """A tensor, or the tensors of a list or tuple, times the scale."""
        if not self._enabled:
            return outputs
        if self._scale is None:
            self._scale = self._init_scale
        if isinstance(outputs, _C.TensorBase):
            return outputs * self._scale
        if isinstance(outputs, (list, tuple)):
            return type(outputs)(self.scale(output) for output in outputs)
        if hasattr(outputs, "__iter__"):
            return map(self.scale, outputs)
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def unscale_(self, optimizer) -> None:
        """Divides the optimizer's gradients by the scale, once for each step; for clipping before `step`."""
        if not self._enabled:
            return
        self._check("unscale_")
        if id(optimizer) in self._stepped:
            raise RuntimeError("unscale_() is being called after step().")
        if id(optimizer) in self._found:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        found = False
        with no_grad():
            for group in optimizer.param_groups:
                for param in group["params"]:
                    if param.grad is None:
                        continue
                    if param.grad.dtype == _C.float16:
                        raise ValueError("Attempting to unscale FP16 gradients.")
                    found = bool((param.grad * 0).sum().item() != 0) or found  # inf and nan times 0 are nan
                    param.grad.mul_(1.0 / self._scale)
        self._found[id(optimizer)] = found

    def step(self, optimizer, *args, **kwargs):
        """`optimizer.step(*args, **kwargs)`, unless a gradient is infinite or nan."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._check("step")
        if id(optimizer) in self._stepped:
            raise RuntimeError("step() has already been called since the last update().")
        if id(optimizer) not in self._found:
            self.unscale_(optimizer)
        self._stepped.add(id(optimizer))
        return None if self._found[id(optimizer)] else optimizer.step(*args, **kwargs)

    def update(self, new_scale=None) -> None:
        """Lowers the scale after a step that was left out, raises it after `growth_interval` good ones, or sets it."""
        if not self._enabled:
            return
        self._check("update")
        if new_scale is not None:
            self._scale = float(new_scale)
        elif not self._found:
            raise AssertionError("No inf checks were recorded prior to update.")
        elif any(self._found.values()):
            self._scale, self._growth_tracker = self._scale * self._backoff_factor, 0
        else:
            self._growth_tracker += 1
            if self._growth_tracker == self._growth_interval:
                self._scale, self._growth_tracker = self._scale * self._growth_factor, 0
        self._found.clear()
        self._stepped.clear()

    def is_enabled(self) -> bool:
        """Whether it scales."""
        return self._enabled

    def get_scale(self) -> float:
        """The scale; 1.0 when it is off."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale

    def get_growth_factor(self) -> float:
        """What the scale is multiplied by after good steps."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Sets that."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """What the scale is multiplied by after a step that was left out."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Sets that."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """Good steps before the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Sets that."""
        self._growth_interval = new_interval

    def state_dict(self) -> dict:
        """Scale, factors and counter; empty when it is off."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._growth_tracker,
        }

    def load_state_dict(self, state_dict: dict) -> None:
        """Takes over what state_dict() gave; nothing when it is off."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler."
            )
        self._init_scale = self._scale = state_dict["scale"]
        self._growth_factor, self._backoff_factor = state_dict["growth_factor"], state_dict["backoff_factor"]
        self._growth_interval, self._growth_tracker = state_dict["growth_interval"], state_dict["_growth_tracker"]
