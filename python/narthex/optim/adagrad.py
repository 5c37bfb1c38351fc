"""Adagrad: steps divided by the root of the sum of the gradient's squares (Duchi and others 2011)."""

from .. import _C
from .each import EachParameter, check_lr, decayed
from .optimizer import check_range, check_ways, divide_into, rate, value_of


class Adagrad(EachParameter):
    """Adagrad with PyTorch's arguments."""

    takes_sparse = True

    def __init__(
        self, params, lr=1e-2, lr_decay: float = 0, weight_decay: float = 0, initial_accumulator_value: float = 0,
        eps: float = 1e-10, foreach: bool | None = None, *, maximize: bool = False, differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:  # fmt: skip
        check_lr(lr)
        for name, value in (("lr_decay", lr_decay), ("weight_decay", weight_decay), ("epsilon", eps),
                            ("initial_accumulator_value", initial_accumulator_value)):  # fmt: skip
            check_range(name, value)
        check_ways(foreach, fused, differentiable)
        self._start(params, {
            "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "fused": fused,
        })  # fmt: skip
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                state["step"] = _C.tensor(0.0, dtype=_C.float32)
                self._begin(parameter, group, state)

    def share_memory(self) -> None:
        """Puts the sums into memory that other processes see."""
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter]["sum"].share_memory_()

    follows_in_graphs = True

    def _begin(self, parameter, group: dict, state: dict) -> None:
        first = group["initial_accumulator_value"]
        state["sum"] = _C.full_like(parameter, complex(first, first) if parameter.is_complex() else first)

    def _step_one(self, parameter, grad, group: dict, state: dict) -> None:
        if grad.is_sparse and group["weight_decay"] != 0:
            raise RuntimeError("weight_decay option is not compatible with sparse gradients")
        grad = decayed(grad, parameter, group)
        lr = rate(group) / (1 + (value_of(state["step"]) - 1) * group["lr_decay"])
        if grad.is_sparse:
            whole = grad.coalesce()
            state["sum"].add_(whole.pow(2))
            below = state["sum"].sparse_mask(whole).values().sqrt().add_(group["eps"])
            parameter.add_(whole.with_values(whole.values() / below), alpha=-lr)
            return
        below = state["sum"].addcmul_(grad, grad, value=1).sqrt().add(group["eps"])
        divide_into(parameter, grad, below, -lr)
