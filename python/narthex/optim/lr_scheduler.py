"""Schedules of the learning rate: each call of step() sets "lr" of all groups of an optimizer.

CosineAnnealingLR goes from one rate to the next, as PyTorch does, and not from a closed formula: what a program itself
writes into a group's "lr" in between then takes part.
"""

import math
import types
import warnings
from bisect import bisect_right
from functools import wraps

from .. import _C
from .._absent import absent
from .._own_init import own_init
from .optimizer import Optimizer

__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR", "ExponentialLR",
    "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR", "OneCycleLR", "PolynomialLR",
    "ReduceLROnPlateau", "SequentialLR", "StepLR",
]  # fmt: skip


def _note_steps(optimizer: Optimizer) -> None:
    """Makes optimizer.step leave a mark, so that a schedule that is stepped first can warn."""
    if hasattr(optimizer.step, "_wrapped_by_lr_sched"):
        return
    step = type(optimizer).step

    @wraps(step)
    def noted(self, *args, **kwargs):
        self._opt_called = True
        return step(self, *args, **kwargs)

    noted._wrapped_by_lr_sched = True
    optimizer.step = types.MethodType(noted, optimizer)


def as_it_is(rate):
    """A rate that stays when the optimizer's goes on: a copy of a tensor."""
    return rate.clone() if isinstance(rate, _C.TensorBase) else rate


def set_rate(group: dict, rate) -> None:
    """Another rate for a group; a tensor stays the same one and is written."""
    if isinstance(group["lr"], _C.TensorBase):
        group["lr"].fill_(rate.item() if isinstance(rate, _C.TensorBase) else rate)
    else:
        group["lr"] = rate


class LRScheduler:
    """Base class: get_lr() gives the rates of all groups for `last_epoch`."""

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        for index, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", as_it_is(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{index}] when resuming scheduler with "
                    "last_epoch >= 0: load the optimizer's state first"
                )
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        _note_steps(optimizer)
        self._step_count = 0
        self._is_initial = True
        self.step()
        self._is_initial = False

    def state_dict(self) -> dict:
        """All but the optimizer."""
        return {name: value for name, value in self.__dict__.items() if name != "optimizer"}

    def load_state_dict(self, state_dict: dict) -> None:
        """Takes over what state_dict() gave."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list:
        """The rates of the groups that the last step set."""
        return self._last_lr

    def get_lr(self) -> list:
        """The next rates of the groups; a subclass defines it."""
        raise NotImplementedError(f"{type(self).__name__}: a subclass defines get_lr")

    def step(self, epoch: int | None = None) -> None:
        """Goes to the next epoch, or (deprecated) to `epoch`, and sets the rates."""
        if self._step_count == 1 and not getattr(self.optimizer, "_opt_called", False):
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`: "
                "the first value of the learning rate schedule is skipped",
                UserWarning,
                stacklevel=2,
            )
        self._step_count += 1
        if epoch is None:
            self.last_epoch += 1
            rates = self.get_lr()
        else:
            self._start_at(epoch)
            return
        self._set(rates)

    def _start_at(self, epoch: int) -> None:
        """Sets the rates of `epoch`, which is no step."""
        self.last_epoch = epoch
        self._set(self._get_closed_form_lr() if hasattr(self, "_get_closed_form_lr") else self.get_lr())

    def _set(self, rates: list) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates):
            set_rate(group, rate)
        self._last_lr = self._rates()

    def _rates(self) -> list:
        return [as_it_is(group["lr"]) for group in self.optimizer.param_groups]


_LRScheduler = LRScheduler


class _OfFunctions(LRScheduler):
    """Rates by functions of the epoch, `lr_lambda`: one for all groups or a list with one for each."""

    def __init__(self, optimizer: Optimizer, lr_lambda, last_epoch: int = -1) -> None:
        n_groups = len(optimizer.param_groups)
        several = isinstance(lr_lambda, (list, tuple))
        if several and len(lr_lambda) != n_groups:
            raise ValueError(f"Expected {n_groups} lr_lambdas, but got {len(lr_lambda)}")
        self._take_functions(list(lr_lambda) if several else [lr_lambda] * n_groups)
        super().__init__(optimizer, last_epoch)

    def _take_functions(self, lr_lambdas: list) -> None:
        self.lr_lambdas = lr_lambdas

    def state_dict(self) -> dict:
        """Functions are left out, the attributes of callable objects stay."""
        state = {name: value for name, value in self.__dict__.items() if name not in ("optimizer", "lr_lambdas")}
        state["lr_lambdas"] = [
            None if isinstance(function, types.FunctionType) else function.__dict__.copy()
            for function in self.lr_lambdas
        ]
        return state

    def load_state_dict(self, state_dict: dict) -> None:
        """Takes over what state_dict() gave."""
        self.__dict__.update({name: value for name, value in state_dict.items() if name != "lr_lambdas"})
        for function, attributes in zip(self.lr_lambdas, state_dict["lr_lambdas"]):
            if attributes is not None:
                function.__dict__.update(attributes)


class LambdaLR(_OfFunctions):
    """initial rate * lr_lambda(epoch); one function for all groups or a list with one for each."""

    def get_lr(self) -> list:
        """The next rates of the groups."""
        return [rate * function(self.last_epoch) for function, rate in zip(self.lr_lambdas, self.base_lrs)]


class StepLR(LRScheduler):
    """Times `gamma` every `step_size` epochs."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list:
        """The next rates of the groups."""
        if self.last_epoch == 0 or self.last_epoch % self.step_size != 0:
            return self._rates()
        return [rate * self.gamma for rate in self._rates()]

    def _get_closed_form_lr(self) -> list:
        return [rate * self.gamma ** (self.last_epoch // self.step_size) for rate in self.base_lrs]


class MultiStepLR(LRScheduler):
    """Times `gamma` at each epoch in `milestones`; an epoch that stands there twice counts twice."""

    def __init__(self, optimizer: Optimizer, milestones, gamma: float = 0.1, last_epoch: int = -1) -> None:
        from collections import Counter

        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list:
        """The next rates of the groups."""
        times = self.milestones.get(self.last_epoch, 0)
        return [rate * self.gamma**times for rate in self._rates()] if times else self._rates()

    def _get_closed_form_lr(self) -> list:
        times = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [rate * self.gamma**times for rate in self.base_lrs]


class ExponentialLR(LRScheduler):
    """Times `gamma` every epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list:
        """The next rates of the groups."""
        return self._rates() if self._is_initial else [rate * self.gamma for rate in self._rates()]

    def _get_closed_form_lr(self) -> list:
        return [rate * self.gamma**self.last_epoch for rate in self.base_lrs]


class ConstantLR(LRScheduler):
    """Times `factor` until epoch `total_iters`, then the initial rate."""

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if not 0 <= factor <= 1:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list:
        """The next rates of the groups."""
        times = 1.0
        if self.last_epoch == 0:
            times = self.factor
        elif self.last_epoch == self.total_iters:
            times = 1.0 / self.factor
        return self._rates() if times == 1.0 else [rate * times for rate in self._rates()]

    def _get_closed_form_lr(self) -> list:
        late = self.last_epoch >= self.total_iters
        return [rate * (self.factor + late * (1 - self.factor)) for rate in self.base_lrs]


class LinearLR(LRScheduler):
    """Times a factor that goes from `start_factor` to `end_factor` in `total_iters` epochs."""

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1.0:
            raise ValueError("Starting multiplicative factor expected to be greater than 0 and less or equal to 1.")
        if not 0 <= end_factor <= 1.0:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list:
        """The next rates of the groups."""
        if self.last_epoch == 0:
            return [rate * self.start_factor for rate in self._rates()]
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._rates()
        rise = self.end_factor - self.start_factor
        before = self.total_iters * self.start_factor + (self.last_epoch - 1) * rise
        return [rate * (1.0 + rise / before) for rate in self._rates()]

    def _get_closed_form_lr(self) -> list:
        rise = self.end_factor - self.start_factor
        done = min(self.total_iters, self.last_epoch) / self.total_iters
        return [rate * (self.start_factor + rise * done) for rate in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the initial rate down to `eta_min` in `T_max` epochs, and up again."""

    def __init__(self, optimizer: Optimizer, T_max: float, eta_min: float = 0.0, last_epoch: int = -1) -> None:  # noqa: N803
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list:
        """The next rates of the groups."""
        epoch, low = self.last_epoch, self.eta_min
        if self._is_initial:
            return self._rates()
        if self._step_count == 1 and epoch > 0:
            return [low + (rate - low) * (1 + math.cos(epoch * math.pi / self.T_max)) / 2 for rate in self.base_lrs]
        if (epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            # The quotient below would be 0 / 0: the rate stood at its lowest.
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            return [now + (rate - low) * rise for now, rate in zip(self._rates(), self.base_lrs)]
        here = 1 + math.cos(math.pi * epoch / self.T_max)
        before = 1 + math.cos(math.pi * (epoch - 1) / self.T_max)
        return [here / before * (now - low) + low for now in self._rates()]

    def _get_closed_form_lr(self) -> list:
        low = self.eta_min
        fall = math.cos(math.pi * self.last_epoch / self.T_max)
        return [low + (rate - low) * (1 + fall) / 2 for rate in self.base_lrs]


from .lr_chains import (  # noqa: E402  (their classes derive from LRScheduler)
    ChainedScheduler,
    CosineAnnealingWarmRestarts,
    CyclicLR,
    MultiplicativeLR,
    PolynomialLR,
    SequentialLR,
)
from .lr_plans import OneCycleLR, ReduceLROnPlateau  # noqa: E402

own_init(LambdaLR, MultiplicativeLR)


def __getattr__(name: str):
    raise absent("torch.optim.lr_scheduler", name, f"it has {', '.join(__all__)} so far")
