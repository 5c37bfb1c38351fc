"""NAdam: Adam with Nesterov's momentum (Dozat 2016)."""

from .. import _C
from .each import EachParameter, check_betas, check_lr, decayed, zeros
from .optimizer import check_range, divide_into, kept, rate, value_of


class NAdam(EachParameter):
    """NAdam with PyTorch's arguments."""

    def __init__(
        self, params, lr=2e-3, betas: tuple = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0,
        momentum_decay: float = 4e-3, decoupled_weight_decay: bool = False, *, foreach: bool | None = None,
        maximize: bool = False, capturable: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        check_lr(lr)
        check_range("epsilon", eps)
        check_betas(betas)
        check_range("weight_decay", weight_decay)
        check_range("momentum_decay", momentum_decay)
        self._start(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize, "foreach": foreach,
            "capturable": capturable, "differentiable": differentiable,
        })  # fmt: skip

    follows_in_graphs = True

    def _begin(self, parameter, group: dict, state: dict) -> None:
        state["mu_product"] = _C.ones((), dtype=_C.float32)
        state["exp_avg"], state["exp_avg_sq"] = zeros(parameter), zeros(parameter)

    def _step_one(self, parameter, grad, group: dict, state: dict) -> None:
        (beta1, beta2), lr, step = group["betas"], rate(group), value_of(state["step"])
        if group["weight_decay"] != 0 and group["decoupled_weight_decay"]:
            parameter.mul_(1 - lr * group["weight_decay"])
        else:
            grad = decayed(grad, parameter, group)
        mu, mu_next = (beta1 * (1.0 - 0.5 * 0.96 ** (at * group["momentum_decay"])) for at in (step, step + 1))
        state["mu_product"] *= mu
        mean = kept(state["exp_avg"].lerp_(grad, 1 - beta1), group)
        square = state["exp_avg_sq"].mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        below = square.div(1 - beta2**step).sqrt().add(group["eps"])
        product = value_of(state["mu_product"])
        divide_into(parameter, grad, below, -lr * (1.0 - mu) / (1.0 - product))
        divide_into(parameter, mean, below, -lr * mu_next / (1.0 - product * mu_next))
