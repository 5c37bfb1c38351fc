"""Schedules that know their whole course, or watch a measure: one cycle, and falling when nothing gets better."""

import math
from operator import gt, lt

from .lr_scheduler import LRScheduler, set_rate
from .optimizer import Optimizer


class OneCycleLR(LRScheduler):
    """Up from max_lr / div_factor to max_lr, then down to 1 / final_div_factor of where it began, in `total_steps`.

    `cycle_momentum` moves the momentum (of Adam: the first beta) the other way.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr,
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum=0.85,
        max_momentum=0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        if total_steps is None and (epochs is None or steps_per_epoch is None):
            raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
        for name, value in (("total_steps", total_steps), ("epochs", epochs), ("steps_per_epoch", steps_per_epoch)):
            if value is not None and (not isinstance(value, int) or value <= 0):
                raise ValueError(f"Expected positive integer {name}, but got {value}")
            if name == "total_steps" and value is not None:
                break
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self.optimizer, self._anneal_func_type, self.cycle_momentum = optimizer, anneal_strategy, cycle_momentum
        self.total_steps = epochs * steps_per_epoch if total_steps is None else total_steps
        self._schedule_phases = _phases(self.total_steps, pct_start, three_phase)
        if last_epoch == -1:
            for group, high in zip(optimizer.param_groups, self._each("max_lr", max_lr)):
                group["initial_lr"], group["max_lr"] = high / div_factor, high
                group["min_lr"] = group["initial_lr"] / final_div_factor
        if cycle_momentum:
            self._begin_momentum(base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)

    def _each(self, name: str, value) -> list:
        n = len(self.optimizer.param_groups)
        if not isinstance(value, (list, tuple)):
            return [value] * n
        if len(value) != n:
            raise ValueError(f"{name} must have the same length as optimizer.param_groups. {name} has {len(value)} "
                             f"values, param_groups has {n}.")  # fmt: skip
        return list(value)

    def _begin_momentum(self, base, high, last_epoch: int) -> None:
        defaults = self.optimizer.defaults
        if "momentum" not in defaults and "betas" not in defaults:
            raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        self.use_beta1 = "betas" in defaults
        if last_epoch != -1:
            return
        bounds = zip(self._each("max_momentum", high), self._each("base_momentum", base))
        for group, (most, least) in zip(self.optimizer.param_groups, bounds):
            self._set_momentum(group, most)
            group["max_momentum"], group["base_momentum"] = most, least

    def _set_momentum(self, group: dict, value: float) -> None:
        if self.use_beta1:
            group["betas"] = (value, *group["betas"][1:])
        else:
            group["momentum"] = value

    def _between(self, start: float, end: float, part: float) -> float:
        if self._anneal_func_type == "linear":
            return (end - start) * part + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * part) + 1)

    def get_lr(self) -> list:
        """The next rates of the groups; sets their momentum."""
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(f"Tried to step {step} times. The specified number of total steps is {self.total_steps}")
        phases = self._schedule_phases
        number = next((k for k, phase in enumerate(phases) if step <= phase[0]), len(phases) - 1)
        begin, (end, rate, momentum) = phases[number - 1][0] if number else 0.0, phases[number]
        rates = []
        part = (step - begin) / (end - begin)
        for group in self.optimizer.param_groups:
            rates.append(self._between(group[rate[0]], group[rate[1]], part))
            if self.cycle_momentum:
                self._set_momentum(group, self._between(group[momentum[0]], group[momentum[1]], part))
        return rates


def _phases(steps: int, rise: float, three: bool) -> list:
    """(last step, the rates between which it goes, the momenta), a phase each."""
    up = (rise * steps - 1, ("initial_lr", "max_lr"), ("max_momentum", "base_momentum"))
    if not three:
        return [up, (steps - 1, ("max_lr", "min_lr"), ("base_momentum", "max_momentum"))]
    down = (2 * rise * steps - 2, ("max_lr", "initial_lr"), ("base_momentum", "max_momentum"))
    return [up, down, (steps - 1, ("initial_lr", "min_lr"), ("max_momentum", "max_momentum"))]


class ReduceLROnPlateau(LRScheduler):
    """Times `factor` when what step(metrics) is given has not got better for more than `patience` calls."""

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr=0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        if mode not in ("min", "max"):
            raise ValueError(f"mode {mode} is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold mode {threshold_mode} is unknown!")
        n_groups = len(optimizer.param_groups)
        if isinstance(min_lr, (list, tuple)) and len(min_lr) != n_groups:
            raise ValueError(f"expected {n_groups} min_lrs, got {len(min_lr)}")
        self.optimizer, self.mode, self.factor, self.patience = optimizer, mode, factor, patience
        self.threshold, self.threshold_mode, self.cooldown, self.eps = threshold, threshold_mode, cooldown, eps
        self.min_lrs = list(min_lr) if isinstance(min_lr, (list, tuple)) else [min_lr] * n_groups
        self.default_min_lr = None if isinstance(min_lr, (list, tuple)) else min_lr
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self.last_epoch = 0
        self._last_lr = self._rates()
        self._reset()

    def _reset(self) -> None:
        self.best, self.cooldown_counter, self.num_bad_epochs = self.mode_worse, 0, 0

    def is_better(self, a: float, best: float) -> bool:
        """Whether `a` is better than `best` by more than the threshold."""
        sign, better = (-1, lt) if self.mode == "min" else (1, gt)
        if self.threshold_mode == "rel":
            return better(a, best * (1.0 + sign * self.threshold))
        return better(a, best + sign * self.threshold)

    @property
    def in_cooldown(self) -> bool:
        """Whether bad epochs do not count yet."""
        return self.cooldown_counter > 0

    def step(self, metrics, epoch: int | None = None) -> None:  # type: ignore[override]
        """Takes the measure of one epoch; a rate may fall."""
        measure = float(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self.is_better(measure, self.best):
            self.best, self.num_bad_epochs = measure, 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce()
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = self._rates()

    def _reduce(self) -> None:
        for group, low in zip(self.optimizer.param_groups, self.min_lrs):
            rate = max(group["lr"] * self.factor, low)
            if group["lr"] - rate > self.eps:
                set_rate(group, rate)
