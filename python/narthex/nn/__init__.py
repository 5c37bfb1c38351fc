"""Modules, parameters and the functions over them. What is listed here is all there is so far."""

from .._absent import absent
from . import functional, init, modules, parallel, utils
from .modules import *
from .modules import __all__ as _modules
from .parallel import DataParallel
from .parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

__all__ = [
    *_modules, "Buffer", "DataParallel", "Parameter", "UninitializedBuffer", "UninitializedParameter", "functional",
    "init", "parallel", "utils",
]  # fmt: skip


def __getattr__(name: str):
    if name in ("attention", "common_types"):
        from importlib import import_module

        return import_module(f"{__name__}.{name}")
    if name in modules._LAZY:
        value = globals()[name] = getattr(modules, name)
        return value
    raise absent("torch.nn", name, f"it has {', '.join(__all__)} so far")


def __dir__() -> list:
    return sorted({*globals(), *modules._LAZY, "attention", "common_types"})
