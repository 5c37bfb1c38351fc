"""Adam: steps scaled by running means of the gradient and of its square."""

from .. import _C
from .optimizer import Optimizer, check_options, check_range


class Adam(Optimizer):
    """Adam with PyTorch's arguments; foreach, fused, capturable, differentiable and tensors as numbers: not yet."""

    def __init__(
        self,
        params,
        lr=1e-3,
        betas=(0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        name = type(self).__name__
        check_options(name, lr, foreach=foreach, capturable=capturable, differentiable=differentiable, fused=fused)
        if any(isinstance(beta, _C.TensorBase) for beta in betas):
            raise NotImplementedError(f"{name}: betas as Tensors are not there yet; give numbers")
        if not 0.0 <= lr:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not 0.0 <= eps:
            raise ValueError(f"Invalid epsilon value: {eps}")
        for index, beta in enumerate(betas):
            if not 0.0 <= beta < 1.0:
                raise ValueError(f"Invalid beta parameter at index {index}: {beta}")
        check_range("weight_decay", weight_decay)
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "amsgrad": amsgrad,
                "maximize": maximize,
                "foreach": foreach,
                "capturable": capturable,
                "differentiable": differentiable,
                "fused": fused,
                "decoupled_weight_decay": decoupled_weight_decay,
            },
        )

    def _state_of(self, parameter, amsgrad: bool) -> dict:
        state = self.state[parameter]
        if not state:
            state["step"] = _C.tensor(0.0, dtype=_C.float32)
            names = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq") if amsgrad else ("exp_avg", "exp_avg_sq")
            for name in names:
                state[name] = _C.empty_like(parameter).zero_()
        return state

    def _step_group(self, group: dict) -> None:
        lr, decay = group["lr"], group["weight_decay"]
        beta1, beta2 = group["betas"]
        for parameter in group["params"]:
            grad = parameter.grad
            if grad is None:
                continue
            if group["maximize"]:
                grad = grad * -1
            state = self._state_of(parameter, group["amsgrad"])
            mean, square = state["exp_avg"], state["exp_avg_sq"]
            state["step"].add_(1)
            step = state["step"].item()
            if decay != 0 and group["decoupled_weight_decay"]:
                parameter.mul_(1 - lr * decay)
            elif decay != 0:
                grad = grad.add(parameter, alpha=decay)
            mean.add_(grad.add(mean, alpha=-1), alpha=1 - beta1)
            square.mul_(beta2).add_(grad * grad, alpha=1 - beta2)
            if group["amsgrad"]:
                most = state["max_exp_avg_sq"]
                most.copy_(_C.maximum(most, square))
                square = most
            scale = (1 - beta2**step) ** 0.5
            below = square.sqrt().div_(scale).add_(group["eps"])
            parameter.add_(mean.div(below), alpha=-(lr / (1 - beta1**step)))
