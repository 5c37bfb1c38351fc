"""Optimizers and schedules of the learning rate. What is listed here is all there is so far."""

from .._absent import absent
from . import lr_scheduler
from .adadelta import Adadelta
from .adafactor import Adafactor
from .adagrad import Adagrad
from .adam import Adam
from .adamax import Adamax
from .adamw import AdamW
from .asgd import ASGD
from .lbfgs import LBFGS
from .muon import Muon
from .nadam import NAdam
from .optimizer import Optimizer
from .radam import RAdam
from .rmsprop import RMSprop
from .rprop import Rprop
from .sgd import SGD
from .swap import swap_in_optimizer_params_and_state

__all__ = [
    "ASGD", "LBFGS", "SGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "Muon", "NAdam", "Optimizer",
    "RAdam", "RMSprop", "Rprop", "lr_scheduler",
]  # fmt: skip


def __getattr__(name: str):
    from importlib import import_module

    if name == "swa_utils":
        return import_module(f"{__name__}.{name}")
    if name == "SparseAdam":
        value = globals()[name] = import_module(f"{__name__}.sparse_adam").SparseAdam
        return value
    raise absent("torch.optim", name, f"it has {', '.join(__all__)} so far")
