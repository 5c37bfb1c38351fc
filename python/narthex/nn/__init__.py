"""Modules, parameters and the functions over them. What is listed here is all there is so far."""

from .._absent import absent
from . import functional, init, modules, parallel, utils
from .modules import *
from .modules import __all__ as _modules
from .parameter import Buffer, Parameter

__all__ = [*_modules, "Buffer", "Parameter", "functional", "init", "parallel", "utils"]


def __getattr__(name: str):
    if name == "attention":
        from importlib import import_module

        return import_module(f"{__name__}.attention")
    raise absent("torch.nn", name, f"it has {', '.join(__all__)} so far")
