"""Muon: momentum made orthogonal by a few Newton-Schulz steps (Jordan and others 2024)."""

import math

from .. import _C
from .each import EachParameter, check_lr, zeros
from .optimizer import check_range, rate


def _orthogonal(update, coefficients: tuple, steps: int, eps: float):
    """Near the closest orthogonal matrix, in bfloat16."""
    a, b, c = coefficients
    x = update.bfloat16()
    tall = x.size(0) > x.size(1)
    x = x.T if tall else x
    x = x.div(x.norm().clamp(min=eps))
    for _ in range(steps):
        gram = x @ x.T
        x = _C.addmm(x, _C.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if tall else x


class Muon(EachParameter):
    """Muon with PyTorch's arguments, for matrices alone."""

    def __init__(
        self, params, lr: float = 1e-3, weight_decay: float = 0.1, momentum: float = 0.95, nesterov: bool = True,
        ns_coefficients: tuple = (3.4445, -4.775, 2.0315), eps: float = 1e-7, ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:  # fmt: skip
        check_lr(lr, "Learning rate should be >= 0 but is")
        if not 0.0 <= lr:
            raise ValueError(f"Learning rate should be >= 0 but is: {lr}")
        check_range("momentum", momentum)
        check_range("weight decay", weight_decay)
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        self._start(params, {
            "lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov,
            "ns_coefficients": ns_coefficients, "eps": eps, "ns_steps": ns_steps, "adjust_lr_fn": adjust_lr_fn,
        })  # fmt: skip
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.dim() != 2:
                    raise ValueError(
                        f"Muon only supports 2D parameters whereas we found a parameter with size: {parameter.size()}"
                    )

    takes_pairs = False

    follows_in_graphs = True

    def _begin(self, parameter, group: dict, state: dict) -> None:
        state["momentum_buffer"] = zeros(parameter)

    def _step_one(self, parameter, grad, group: dict, state: dict) -> None:
        lr, momentum = rate(group), group["momentum"]
        running = state["momentum_buffer"].lerp_(grad, 1 - momentum)
        update = grad.lerp(running, momentum) if group["nesterov"] else running
        update = _orthogonal(update, group["ns_coefficients"], group["ns_steps"], group["eps"])
        rows, columns = parameter.shape
        if group["adjust_lr_fn"] == "match_rms_adamw":
            factor = 0.2 * math.sqrt(max(rows, columns))
        else:
            factor = math.sqrt(max(1, rows / columns))
        parameter.mul_(1 - lr * group["weight_decay"])
        parameter.add_(update, alpha=-lr * factor)
