"""Stochastic gradient descent with momentum."""

from .. import _C
from ..compiler import is_compiling
from .optimizer import (
    Optimizer,
    add_into,
    alike,
    check_options,
    check_range,
    check_ways,
    has_sparse,
    is_half,
    kept,
    rate,
)


class SGD(Optimizer):
    """p -= lr * (grad + weight_decay * p), with `momentum` along a running sum.

    A step is one launch for all parameters of a group, whatever `foreach` and `fused` are; of sparse gradients
    and half types, one operator after the other.
    """

    takes_sparse = True
    steps_one_by_one = False

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
        check_ways(foreach, fused, differentiable)
        check_options(lr)
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

    follows_in_graphs = True

    def _step_group(self, group: dict) -> None:
        for parameters in alike(group):
            if (
                group["differentiable"]
                or is_compiling()
                or has_sparse(parameters)
                or (not group["fused"] and any(map(is_half, parameters)))
            ):
                for parameter in parameters:
                    self._step_one(parameter, group)
                continue
            fresh = [p for p in parameters if group["momentum"] != 0 and self.state[p].get("momentum_buffer") is None]
            for parameter in fresh:
                self.state[parameter]["momentum_buffer"] = _C.empty_like(parameter)
            if fresh:
                self._step_all(fresh, group, True)
            if len(fresh) < len(parameters):
                new = {id(parameter) for parameter in fresh}
                self._step_all([p for p in parameters if id(p) not in new], group, False)

    def _step_all(self, parameters: list, group: dict, is_first: bool) -> None:
        moves = group["momentum"] != 0
        _C._fused_sgd_(
            parameters,
            [parameter.grad for parameter in parameters],
            [self.state[parameter]["momentum_buffer"] for parameter in parameters] if moves else [],
            weight_decay=group["weight_decay"],
            momentum=group["momentum"],
            lr=group["lr"],
            dampening=group["dampening"],
            nesterov=group["nesterov"],
            maximize=group["maximize"],
            is_first_step=is_first,
        )

    def _step_one(self, parameter, group: dict) -> None:
        """One operator after the other, as half types are rounded and gradients recorded."""
        momentum, decay = group["momentum"], group["weight_decay"]
        change = -parameter.grad if group["maximize"] else parameter.grad
        if decay != 0:
            change = change.add(parameter, alpha=decay)
        if momentum != 0:
            state = self.state[parameter]
            if state.get("momentum_buffer") is None:
                state["momentum_buffer"] = change.detach().clone()
            else:
                state["momentum_buffer"].mul_(momentum).add_(change, alpha=1 - group["dampening"])
            running = kept(state["momentum_buffer"], group)
            change = change.add(running, alpha=momentum) if group["nesterov"] else running
        add_into(parameter, change, -rate(group))
