"""Averages of the weights of a model (Izmailov et al. 2018), also exponential ones, and a schedule for them."""

import math
from copy import deepcopy
from itertools import chain

from .. import _C
from ..autograd.grad_mode import no_grad
from ..nn.modules.batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d, SyncBatchNorm
from ..nn.modules.module import Module
from .lr_chains import each_group
from .lr_scheduler import LRScheduler

__all__ = ["AveragedModel", "SWALR", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn",
           "get_swa_multi_avg_fn", "update_bn"]  # fmt: skip


def _check_decay(decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def get_ema_multi_avg_fn(decay: float = 0.999):
    """A function that moves a list of averages towards a list of values, by 1 - decay."""
    _check_decay(decay)

    def update(averages, values, _) -> None:
        with no_grad():
            for average, value in zip(averages, values):
                if average.is_floating_point() or average.is_complex():
                    average.copy_(average.lerp(value, 1 - decay))
                else:
                    average.copy_(average * decay + value * (1 - decay))

    return update


def get_swa_multi_avg_fn():
    """A function that takes a list of values into a list of averages of so many."""

    def update(averages, values, n_averaged) -> None:
        with no_grad():
            part = 1 / (n_averaged + 1)
            for average, value in zip(averages, values):
                if average.is_floating_point() or average.is_complex():
                    average.copy_(average.lerp(value, part.item() if isinstance(part, _C.TensorBase) else part))
                else:
                    average.copy_(average + (value - average) / (n_averaged + 1))

    return update


def get_ema_avg_fn(decay: float = 0.999):
    """A function of an average and a value: the average moved by 1 - decay."""
    _check_decay(decay)

    def update(average, value, _):
        with no_grad():
            return decay * average + (1 - decay) * value

    return update


def get_swa_avg_fn():
    """A function of an average of so many and a value: the average of one more."""

    def update(average, value, n_averaged):
        with no_grad():
            return average + (value - average) / (n_averaged + 1)

    return update


class AveragedModel(Module):
    """A copy of `model` whose parameters (with `use_buffers`, buffers too) are averages of those that
    update_parameters(model) was given: plain ones, or as avg_fn or multi_avg_fn say."""

    def __init__(self, model, device=None, avg_fn=None, multi_avg_fn=None, use_buffers: bool = False) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", _C.tensor(0, dtype=_C.int64, device=device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def _averaged(self, model) -> list:
        return list(chain(model.parameters(), model.buffers()) if self.use_buffers else model.parameters())

    def update_parameters(self, model) -> None:
        """Takes the weights of `model` into the averages."""
        mine = [tensor.detach() for tensor in self._averaged(self.module)]
        theirs = [tensor.detach().to(own.device) for tensor, own in zip(self._averaged(model), mine)]
        n = self.n_averaged
        if n.item() == 0:
            for own, other in zip(mine, theirs):
                own.copy_(other)
        elif self.multi_avg_fn is not None:
            self.multi_avg_fn(mine, theirs, n)
        else:
            mean = self.avg_fn or get_swa_avg_fn()
            for own, other in zip(mine, theirs):
                own.copy_(mean(own, other, n))
        if not self.use_buffers:
            for own, other in zip(self.module.buffers(), model.buffers()):
                own.detach().copy_(other.detach().to(own.device))
        n += 1


def update_bn(loader, model, device=None) -> None:
    """Computes the statistics of the batch norms of `model` again, in one pass over `loader`."""
    norms = [m for m in model.modules() if isinstance(m, (BatchNorm1d, BatchNorm2d, BatchNorm3d, SyncBatchNorm))]
    if not norms:
        return
    training, momenta = model.training, [norm.momentum for norm in norms]
    with no_grad():
        for norm in norms:
            norm.reset_running_stats()
        model.train()
        for norm in norms:
            norm.momentum = None
        for input in loader:
            input = input[0] if isinstance(input, (list, tuple)) else input
            model(input if device is None else input.to(device))
    for norm, momentum in zip(norms, momenta):
        norm.momentum = momentum
    model.train(training)


class SWALR(LRScheduler):
    """From the rates that there are to `swa_lr` in `anneal_epochs`, along a line or half a cosine, and there."""

    def __init__(
        self, optimizer, swa_lr, anneal_epochs: int = 10, anneal_strategy: str = "cos", last_epoch: int = -1
    ) -> None:
        for rate, group in zip(each_group("swa_lr", optimizer, swa_lr), optimizer.param_groups):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._anneal_strategy, self.anneal_epochs = anneal_strategy, anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _part(self, step: int) -> float:
        """How far the way is gone at `step`, of 1."""
        t = max(0, min(1, step / max(1, self.anneal_epochs)))
        return t if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * t)) / 2

    def get_lr(self) -> list:
        """The next rates of the groups."""
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now, rates = self._part(step - 1), self._part(step), []
        for group in self.optimizer.param_groups:
            goal = group["swa_lr"]
            start = goal if before == 1 else (group["lr"] - before * goal) / (1 - before)
            rates.append(goal * now + start * (1 - now))
        return rates
