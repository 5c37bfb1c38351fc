"""Modules, parameters and the functions over them. What is listed here is all there is so far."""

from . import functional
from .modules import Identity, Module, ModuleList, Sequential
from .parameter import Parameter

__all__ = ["Identity", "Module", "ModuleList", "Parameter", "Sequential", "functional"]


def __getattr__(name: str):
    raise AttributeError(f"module 'torch.nn' has no attribute '{name}': Narthex has {', '.join(__all__)} so far")
