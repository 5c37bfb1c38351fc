"""Optimizers and schedules of the learning rate. What is listed here is all there is so far."""

from .._absent import absent
from .._later import keep_whole
from . import lr_scheduler
from .adam import Adam
from .adamw import AdamW
from .optimizer import Optimizer
from .rmsprop import RMSprop
from .sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "RMSprop", "lr_scheduler"]
keep_whole(globals(), {"Adam": "sqrt div", "AdamW": "sqrt div", "RMSprop": "sqrt addcdiv lerp"})


def __getattr__(name: str):
    raise absent("torch.optim", name, f"it has {', '.join(__all__)} so far")
