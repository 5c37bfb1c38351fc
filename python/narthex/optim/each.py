"""Optimizers that step one parameter after the other, in operators."""

from .. import _C
from .optimizer import Optimizer, check_options


class EachParameter(Optimizer):
    """Base class: a subclass says what the state of a parameter is and how it is stepped."""

    def _start(self, params, options: dict) -> None:
        """What every constructor ends with: `options` are the defaults."""
        Optimizer.__init__(self, params, options)

    def _step_group(self, group: dict) -> None:
        for parameter in group["params"]:
            if parameter.grad is None:
                continue
            state = self.state[parameter]
            if not state:
                state["step"] = _C.tensor(0.0, dtype=_C.float32)
                self._begin(parameter, group, state)
            state["step"].add_(1)
            grad = -parameter.grad if group.get("maximize") else parameter.grad
            self._step_one(parameter, grad, group, state)

    def _begin(self, parameter, group: dict, state: dict) -> None:
        """Fills the state of a parameter before its first step."""
        raise NotImplementedError

    def _step_one(self, parameter, grad, group: dict, state: dict) -> None:
        raise NotImplementedError


def decayed(grad, parameter, group: dict):
    """The gradient with the weights' decay."""
    return grad.add(parameter, alpha=group["weight_decay"]) if group["weight_decay"] != 0 else grad


def zeros(parameter):
    """Zeros of the parameter's shape and strides."""
    return _C.empty_like(parameter).zero_()


def check_betas(betas) -> None:
    """ValueError unless both lie in [0, 1)."""
    for k, beta in enumerate(betas):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {k}: {beta}")


def check_lr(lr, wrong: str = "Invalid learning rate") -> None:
    """ValueError for a negative learning rate, and for one of several numbers."""
    check_options(lr)
    if not 0.0 <= lr:
        raise ValueError(f"{wrong}: {lr}")
