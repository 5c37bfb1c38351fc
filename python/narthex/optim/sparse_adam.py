"""SparseAdam: Adam over the elements that a sparse gradient has. What it does not have stays as it is, moments too."""

from .each import EachParameter, check_betas, zeros
from .optimizer import check_options


class SparseAdam(EachParameter):
    """SparseAdam with PyTorch's arguments; a step with a dense gradient raises."""

    takes_sparse = True

    def __init__(self, params, lr=1e-3, betas: tuple = (0.9, 0.999), eps: float = 1e-8, maximize: bool = False) -> None:
        check_options(lr)
        if not 0.0 < lr:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not 0.0 < eps:
            raise ValueError(f"Invalid epsilon value: {eps}")
        check_betas(betas)
        self._start(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        for kind, is_such, text in (
            ("Sparse", lambda p: p.is_sparse, "requires dense parameter tensors"),
            ("Complex", lambda p: p.is_complex(), "does not support complex parameters"),
        ):
            groups = [group["params"] for group in self.param_groups]
            such = [[g, k] for g, members in enumerate(groups) for k, p in enumerate(members) if is_such(p)]
            if such:
                raise ValueError(f"{kind} params at indices {such}: SparseAdam {text}")

    def _step_group(self, group: dict) -> None:
        if any(parameter.grad is not None and not parameter.grad.is_sparse for parameter in group["params"]):
            raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")
        super()._step_group(group)

    def _begin(self, parameter, group: dict, state: dict) -> None:
        state["exp_avg"], state["exp_avg_sq"] = zeros(parameter), zeros(parameter)

    def _step_one(self, parameter, grad, group: dict, state: dict) -> None:
        grad, (beta1, beta2), step = grad.coalesced(), group["betas"], state["step"].item()
        indices, values = grad._parts
        places, moments = indices.unbind(0), []
        for name, now, beta in (("exp_avg", values, beta1), ("exp_avg_sq", values * values, beta2)):
            before = state[name][places]
            moments.append((now - before).mul_(1 - beta).add_(before))
            state[name].index_put_(places, moments[-1])
        size = group["lr"] * (1 - beta2**step) ** 0.5 / (1 - beta1**step)
        change = moments[0] / moments[1].sqrt_().add_(group["eps"])
        parameter.index_put_(places, parameter[places].add_(change, alpha=-size))
