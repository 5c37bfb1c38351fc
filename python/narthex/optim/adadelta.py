"""Adadelta: steps as large as the steps before were, without a learning rate of their own (Zeiler 2012)."""

from .each import EachParameter, check_lr, decayed, zeros
from .optimizer import add_into, check_range, rate


class Adadelta(EachParameter):
    """Adadelta with PyTorch's arguments."""

    def __init__(
        self, params, lr=1.0, rho: float = 0.9, eps: float = 1e-6, weight_decay: float = 0,
        foreach: bool | None = None, *, capturable: bool = False, maximize: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        check_lr(lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        check_range("epsilon", eps)
        check_range("weight_decay", weight_decay)
        self._start(params, {
            "lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "capturable": capturable, "foreach": foreach, "differentiable": differentiable,
        })  # fmt: skip

    follows_in_graphs = True

    def _begin(self, parameter, group: dict, state: dict) -> None:
        state["square_avg"], state["acc_delta"] = zeros(parameter), zeros(parameter)

    def _step_one(self, parameter, grad, group: dict, state: dict) -> None:
        grad, rho, eps = decayed(grad, parameter, group), group["rho"], group["eps"]
        square = state["square_avg"].mul_(rho).addcmul_(grad, grad, value=1 - rho)
        delta = state["acc_delta"].add(eps).sqrt_().div(square.add(eps).sqrt_()).mul_(grad)
        state["acc_delta"].mul_(rho).addcmul_(delta, delta, value=1 - rho)
        add_into(parameter, delta, -rate(group))
