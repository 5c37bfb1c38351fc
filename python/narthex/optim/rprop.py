"""Rprop: steps whose length follows the gradient's sign alone (Riedmiller and Braun 1993)."""

from .. import _C
from .each import EachParameter, check_lr, zeros
from .optimizer import kept


class Rprop(EachParameter):
    """Rprop with PyTorch's arguments."""

    def __init__(
        self, params, lr=1e-2, etas: tuple = (0.5, 1.2), step_sizes: tuple = (1e-6, 50), *, capturable: bool = False,
        foreach: bool | None = None, maximize: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        check_lr(lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        self._start(params, {
            "lr": lr, "etas": etas, "step_sizes": step_sizes, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "capturable": capturable,
        })  # fmt: skip

    follows_in_graphs = True

    def _begin(self, parameter, group: dict, state: dict) -> None:
        state["prev"] = zeros(parameter)
        state["step_size"] = _C.full_like(parameter, float(group["lr"]))

    def _step_one(self, parameter, grad, group: dict, state: dict) -> None:
        (shorter, longer), (least, most) = group["etas"], group["step_sizes"]
        turned = grad.mul(kept(state["prev"], group)).sign()
        factor = _C.ones_like(grad).masked_fill_(turned > 0, longer).masked_fill_(turned < 0, shorter)
        length = kept(state["step_size"].mul_(factor).clamp_(least, most), group)
        grad = _C.where(turned < 0, 0.0, grad).to(grad.dtype)
        parameter.addcmul_(grad.sign(), length, value=-1)
        state["prev"].copy_(grad)
