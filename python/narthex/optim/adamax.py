"""Adamax: Adam with the largest gradient instead of the mean square (Kingma and Ba 2014)."""

from .. import _C
from .each import EachParameter, check_betas, check_lr, decayed, zeros
from .optimizer import check_range, divide_into, kept, rate, value_of


class Adamax(EachParameter):
    """Adamax with PyTorch's arguments."""

    def __init__(
        self, params, lr=2e-3, betas: tuple = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0,
        foreach: bool | None = None, *, maximize: bool = False, differentiable: bool = False, capturable: bool = False,
    ) -> None:  # fmt: skip
        check_lr(lr)
        check_range("epsilon", eps)
        check_betas(betas)
        check_range("weight_decay", weight_decay)
        self._start(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
        })  # fmt: skip

    follows_in_graphs = True

    def _begin(self, parameter, group: dict, state: dict) -> None:
        state["exp_avg"], state["exp_inf"] = zeros(parameter), zeros(parameter)

    def _step_one(self, parameter, grad, group: dict, state: dict) -> None:
        grad, (beta1, beta2) = decayed(grad, parameter, group), group["betas"]
        mean, largest = state["exp_avg"].lerp_(grad, 1 - beta1), state["exp_inf"]
        largest.copy_(_C.maximum(kept(largest.mul_(beta2), group), grad.abs().add_(group["eps"])))
        lr = rate(group) / (1 - beta1 ** value_of(state["step"]))
        divide_into(parameter, kept(mean, group), kept(largest, group), -lr)
