"""Averaged stochastic gradient descent (Polyak and Juditsky 1992)."""

from .. import _C
from .each import EachParameter, check_lr, decayed, zeros
from .optimizer import add_into, at_least, check_range, chosen, of_type, put, rate, value_of


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

    follows_in_graphs = True

    def _begin(self, parameter, group: dict, state: dict) -> None:
        state["eta"] = _C.tensor(float(group["lr"]), dtype=_C.float32)
        state["mu"] = _C.ones((), dtype=_C.float32)
        state["ax"] = zeros(parameter)

    def _step_one(self, parameter, grad, group: dict, state: dict) -> None:
        grad, mu, average = decayed(grad, parameter, group), state["mu"], state["ax"]
        step, lr, eta = value_of(state["step"]), rate(group), value_of(state["eta"])
        parameter.mul_(of_type(1 - group["lambd"] * eta, parameter))
        add_into(parameter, grad, -eta)
        average.copy_(chosen(value_of(mu) == 1, lambda: parameter, lambda: average + parameter.sub(average).mul_(mu)))
        put(state["eta"], lr / (1 + group["lambd"] * lr * step) ** group["alpha"])
        put(mu, 1 / at_least(step - group["t0"], 1))
