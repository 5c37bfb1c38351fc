"""RAdam: Adam whose first steps are not divided by a variance that is not known yet (Liu and others 2019)."""

from .each import EachParameter, check_betas, check_lr, decayed, zeros
from .optimizer import check_range, chosen, of_type, rate, value_of


class RAdam(EachParameter):
    """RAdam with PyTorch's arguments."""

    def __init__(
        self, params, lr=1e-3, betas: tuple = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0,
        decoupled_weight_decay: bool = False, *, foreach: bool | None = None, maximize: bool = False,
        capturable: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        check_lr(lr)
        check_range("epsilon", eps)
        check_betas(betas)
        check_range("weight_decay", weight_decay)
        self._start(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "foreach": foreach, "capturable": capturable, "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        })  # fmt: skip

    follows_in_graphs = True

    def _begin(self, parameter, group: dict, state: dict) -> None:
        state["exp_avg"], state["exp_avg_sq"] = zeros(parameter), zeros(parameter)

    def _step_one(self, parameter, grad, group: dict, state: dict) -> None:
        (beta1, beta2), lr, step = group["betas"], rate(group), value_of(state["step"])
        if group["weight_decay"] != 0 and group["decoupled_weight_decay"]:
            parameter.mul_(1 - lr * group["weight_decay"])
        else:
            grad = decayed(grad, parameter, group)
        mean = state["exp_avg"].lerp_(grad, 1 - beta1)
        square = state["exp_avg_sq"].mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        left2 = 1 - beta2**step
        change = mean / of_type(1 - beta1**step, mean)
        change = change * of_type(lr, change)
        longest = 2 / (1 - beta2) - 1  # the length of the average, at most and now
        length = longest - 2 * step * beta2**step / left2

        def rectified():
            rectify = ((length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)) ** 0.5
            adaptive = of_type(left2**0.5, square) / square.sqrt().add(group["eps"])
            return change * adaptive * of_type(rectify, change)

        parameter.add_(chosen(length <= 5.0, lambda: change, rectified), alpha=-1.0)
