"""RMSprop: steps divided by the root of a running mean of the gradient's square."""

from .. import _C
from .optimizer import Optimizer, add_into, check_options, check_range, check_ways, divide_into, kept, rate


class RMSprop(Optimizer):
    """RMSprop with PyTorch's arguments."""

    def __init__(
        self,
        params,
        lr=1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_ways(foreach, None, differentiable)
        check_options(lr)
        if not 0.0 <= lr:
            raise ValueError(f"Invalid learning rate: {lr}")
        check_range("epsilon", eps)
        check_range("momentum", momentum)
        check_range("weight_decay", weight_decay)
        check_range("alpha", alpha)
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "alpha": alpha,
                "eps": eps,
                "centered": centered,
                "weight_decay": weight_decay,
                "capturable": capturable,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
            },
        )

    follows_in_graphs = True

    def _step_group(self, group: dict) -> None:
        for parameter in group["params"]:
            if parameter.grad is not None:
                self._step_one(parameter, group)

    def _state_of(self, parameter, group: dict) -> dict:
        state = self.state[parameter]
        if not state:
            state["step"] = _C.tensor(0.0, dtype=_C.float32)
            state["square_avg"] = _C.empty_like(parameter).zero_()
            if group["momentum"] > 0:
                state["momentum_buffer"] = _C.empty_like(parameter).zero_()
            if group["centered"]:
                state["grad_avg"] = _C.empty_like(parameter).zero_()
        return state

    def _step_one(self, parameter, group: dict) -> None:
        lr, alpha, state = rate(group), group["alpha"], self._state_of(parameter, group)
        state["step"].add_(1)
        grad = -parameter.grad if group["maximize"] else parameter.grad
        if group["weight_decay"] != 0:
            grad = grad.add(parameter, alpha=group["weight_decay"])
        square = state["square_avg"].mul_(alpha).addcmul_(grad, grad, value=1 - alpha)
        if group["centered"]:
            mean = kept(state["grad_avg"].lerp_(grad, 1 - alpha), group)
            square = square.addcmul(mean, mean, value=-1)
        below = square.sqrt().add(group["eps"])
        if group["momentum"] > 0:
            moved = state["momentum_buffer"].mul_(group["momentum"]).addcdiv_(grad, below)
            add_into(parameter, kept(moved, group), -lr)
        else:
            divide_into(parameter, grad, below, -lr)
