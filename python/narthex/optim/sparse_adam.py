"""SparseAdam: Adam over the rows that a sparse gradient has. There are no sparse tensors, so that a step refuses."""

from .each import check_betas
from .optimizer import Optimizer


class SparseAdam(Optimizer):
    """SparseAdam with PyTorch's arguments; a step with a gradient raises, as PyTorch's does for dense ones."""

    def __init__(self, params, lr=1e-3, betas: tuple = (0.9, 0.999), eps: float = 1e-8, maximize: bool = False) -> None:
        if not 0.0 < lr:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not 0.0 < eps:
            raise ValueError(f"Invalid epsilon value: {eps}")
        check_betas(betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})

    def _step_group(self, group: dict) -> None:
        if any(parameter.grad is not None for parameter in group["params"]):
            raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")
