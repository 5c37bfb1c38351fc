"""Stochastic gradient descent with momentum."""

from .optimizer import Optimizer, check_options, check_range


class SGD(Optimizer):
    """p -= lr * (grad + weight_decay * p), with `momentum` along a running sum; foreach, fused: not there yet."""

    def __init__(
        self,
        params,
        lr=1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_options("SGD", lr, foreach=foreach, differentiable=differentiable, fused=fused)
        if lr < 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        check_range("momentum", momentum)
        check_range("weight_decay", weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "dampening": dampening,
                "weight_decay": weight_decay,
                "nesterov": nesterov,
                "maximize": maximize,
                "foreach": foreach,
                "differentiable": differentiable,
                "fused": fused,
            },
        )

    def _step_group(self, group: dict) -> None:
        lr, momentum, decay = group["lr"], group["momentum"], group["weight_decay"]
        for parameter in group["params"]:
            change = parameter.grad
            if change is None:
                continue
            if group["maximize"]:
                change = change * -1
            if decay != 0:
                change = change.add(parameter, alpha=decay)
            if momentum != 0:
                state = self.state[parameter]
                running = state.get("momentum_buffer")
                if running is None:
                    running = state["momentum_buffer"] = change.detach().clone()
                else:
                    running.mul_(momentum).add_(change, alpha=1 - group["dampening"])
                change = change.add(running, alpha=momentum) if group["nesterov"] else running
            parameter.add_(change, alpha=-lr)
