"""Adam: steps scaled by running means of the gradient and of its square."""

from .. import _C
from ..compiler import is_compiling
from .optimizer import (
    Optimizer,
    alike,
    check_options,
    check_range,
    check_ways,
    divide_into,
    is_half,
    kept,
    of_type,
    rate,
    value_of,
)


def _check_tensor(name: str, given, foreach: bool | None, capturable: bool) -> None:
    """ValueError for a tensor where `foreach` asks for a step of many at once, which takes numbers."""
    if isinstance(given, _C.TensorBase) and foreach and not capturable:
        raise ValueError(f"{name} as a Tensor is not supported for capturable=False and foreach=True")


class Adam(Optimizer):
    """Adam with PyTorch's arguments; betas as tensors not with differentiable.

    A step is one launch for all parameters of a group, whatever `foreach` and `fused` are.
    """

    instead_of_sparse = ", please consider SparseAdam instead"

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
        check_ways(foreach, fused, differentiable)
        _check_tensor("lr", lr, foreach, capturable)
        check_options(lr)
        if not 0.0 <= lr:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not 0.0 <= eps:
            raise ValueError(f"Invalid epsilon value: {eps}")
        for index, beta in enumerate(betas):
            if not 0.0 <= beta < 1.0:
                raise ValueError(f"Invalid beta parameter at index {index}: {beta}")
        check_range("weight_decay", weight_decay)
        if len({isinstance(beta, _C.TensorBase) for beta in betas}) > 1:
            raise ValueError("betas must be either both floats or both Tensors")
        for index, beta in enumerate(betas):
            _check_tensor(f"betas[{index}]", beta, foreach, capturable)
        if differentiable and isinstance(betas[0], _C.TensorBase):
            text = f"{name}: betas as Tensors with differentiable=True are not there yet; give numbers"
            raise NotImplementedError(text)
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

    follows_in_graphs = True

    def _state_of(self, parameter, amsgrad: bool) -> dict:
        state = self.state[parameter]
        if not state:
            state["step"] = _C.tensor(0.0, dtype=_C.float32)
            names = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq") if amsgrad else ("exp_avg", "exp_avg_sq")
            for name in names:
                state[name] = _C.empty_like(parameter).zero_()
        return state

    def _step_group(self, group: dict) -> None:
        for parameters in alike(group):
            if group["differentiable"] or is_compiling() or (not group["fused"] and any(map(is_half, parameters))):
                for parameter in parameters:
                    self._step_one(parameter, group)
            else:
                self._step_all(parameters, group)

    def _step_all(self, parameters: list, group: dict) -> None:
        amsgrad, (beta1, beta2) = group["amsgrad"], group["betas"]
        states = [self._state_of(parameter, amsgrad) for parameter in parameters]
        steps = [state["step"] for state in states]
        _C._foreach_add_(steps, 1)
        step = _C._fused_adamw_ if group["decoupled_weight_decay"] else _C._fused_adam_
        step(
            parameters,
            [parameter.grad for parameter in parameters],
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [state["max_exp_avg_sq"] for state in states] if amsgrad else [],
            steps,
            lr=group["lr"],
            beta1=beta1,
            beta2=beta2,
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            amsgrad=amsgrad,
            maximize=group["maximize"],
        )

    def _step_one(self, parameter, group: dict) -> None:
        """One operator after the other, as half types are rounded and gradients recorded."""
        lr, decay, (beta1, beta2) = rate(group), group["weight_decay"], group["betas"]
        grad = -parameter.grad if group["maximize"] else parameter.grad
        state = self._state_of(parameter, group["amsgrad"])
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        step = value_of(state["step"].add_(1))
        if decay != 0 and group["decoupled_weight_decay"]:
            parameter.mul_(1 - lr * decay)
        elif decay != 0:
            grad = grad.add(parameter, alpha=decay)
        mean = kept(mean.lerp_(grad, 1 - beta1), group)
        square = kept(square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2), group)
        if group["amsgrad"]:
            most = state["max_exp_avg_sq"]
            square = most.copy_(_C.maximum(kept(most, group), square))
        below = square.sqrt().div(of_type((1 - beta2**step) ** 0.5, square)).add_(group["eps"])
        divide_into(parameter, mean, below, -(lr / (1 - beta1**step)))
