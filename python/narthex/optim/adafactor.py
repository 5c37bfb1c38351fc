"""Adafactor: the mean square of a matrix of gradients kept as a row and a column (Shazeer and Stern 2018)."""

from .._type_info import finfo
from .each import EachParameter, check_lr
from .optimizer import add_into, at_least, at_most, of_type, rate, value_of


class Adafactor(EachParameter):
    """Adafactor with PyTorch's arguments, where the step's length is relative to the parameter's."""

    def __init__(
        self, params, lr=1e-2, beta2_decay: float = -0.8, eps: tuple = (None, 1e-3), d: float = 1.0,
        weight_decay: float = 0.0, *, foreach: bool | None = None, maximize: bool = False,
    ) -> None:  # fmt: skip
        check_lr(lr, "Learning rate should be >= 0 but is")
        if beta2_decay > 0.0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        for k, value in enumerate(eps):
            if value is not None and value < 0.0:
                raise ValueError(f"epsilon{k + 1} should be >= 0 but is: {value}")
        if d < 1.0:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        if not 0.0 <= weight_decay:
            raise ValueError(f"weight_decay should be >= 0 but is: {weight_decay}")
        self._start(params, {
            "lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d, "weight_decay": weight_decay,
            "foreach": foreach, "maximize": maximize,
        })  # fmt: skip

    takes_pairs = False
    follows_in_graphs = True

    def _begin(self, parameter, group: dict, state: dict) -> None:
        if parameter.is_complex():
            raise RuntimeError("Adafactor does not support complex parameters")
        if parameter.dim() > 1:
            shape = list(parameter.shape)
            state["row_var"] = parameter.new_zeros((*shape[:-1], 1))
            state["col_var"] = parameter.new_zeros((*shape[:-2], 1, shape[-1]))
        else:
            state["variance"] = parameter.new_zeros(tuple(parameter.shape))

    def _step_one(self, parameter, grad, group: dict, state: dict) -> None:
        least = finfo(parameter.dtype).eps if group["eps"][0] is None else group["eps"][0]
        step, lr = value_of(state["step"]), rate(group)
        share = of_type(step ** group["beta2_decay"], grad)
        size = value_of(parameter.norm(2)) / parameter.numel() ** 0.5
        alpha = at_least(size, group["eps"][1]) * at_most(1 / step**0.5, lr)
        if group["weight_decay"] != 0:
            parameter.mul_(of_type(1 - lr * group["weight_decay"], parameter))
        if grad.dim() > 1:
            rows = grad.norm(dim=-1, keepdim=True).square_().div_(grad.size(-1))
            columns = grad.norm(dim=-2, keepdim=True).square_().div_(grad.size(-2))
            row, column = state["row_var"].lerp_(rows, share), state["col_var"].lerp_(columns, share)
            variance = (row @ column).div_(row.mean(dim=-2, keepdim=True).clamp_(min=least))
        else:
            variance = state["variance"].lerp_(grad.square(), share).clone()
        update = variance.clamp_(min=least * least).rsqrt_().mul_(grad)
        below = at_least(value_of(update.norm(2)) / (update.numel() ** 0.5 * group["d"]), 1.0)
        add_into(parameter, update, -alpha / below)
