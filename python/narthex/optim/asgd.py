"""Averaged stochastic gradient descent (Polyak and Juditsky 1992)."""

from .. import _C
from .each import EachParameter, check_lr, decayed, zeros
from .optimizer import check_range


class ASGD(EachParameter):
    """ASGD with PyTorch's arguments. The average is state["ax"]."""

    def __init__(
        self, params, lr=1e-2, lambd: float = 1e-4, alpha: float = 0.75, t0: float = 1e6, weight_decay: float = 0,
        foreach: bool | None = None, maximize: bool = False, differentiable: bool = False, capturable: bool = False,
    ) -> None:  # fmt: skip
        check_lr(lr)
        check_range("weight_decay", weight_decay)
        self._start(params, {
            "lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
        })  # fmt: skip

    def _begin(self, parameter, group: dict, state: dict) -> None:
        state["eta"] = _C.tensor(float(group["lr"]), dtype=_C.float32)
        state["mu"] = _C.ones((), dtype=_C.float32)
        state["ax"] = zeros(parameter)

    def _step_one(self, parameter, grad, group: dict, state: dict) -> None:
        grad, eta, mu, average = decayed(grad, parameter, group), state["eta"], state["mu"], state["ax"]
        step, lr = state["step"].item(), float(group["lr"])
        parameter.mul_(1 - group["lambd"] * eta.item())
        parameter.add_(grad, alpha=-eta.item())
        if mu.item() == 1:
            average.copy_(parameter)
        else:
            average.add_(parameter.sub(average).mul_(mu))
        eta.fill_(lr / (1 + group["lambd"] * lr * step) ** group["alpha"])
        mu.fill_(1 / max(1, step - group["t0"]))
