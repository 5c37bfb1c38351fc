"""Modules, parameters and the functions over them. What is listed here is all there is so far."""

from .._absent import absent
from . import functional, init, modules, parallel, utils
from .modules import *
from .modules import __all__ as _modules
from .parallel import DataParallel
from .parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

__all__ = [
    *_modules, "Buffer", "DataParallel", "Parameter", "UninitializedBuffer", "UninitializedParameter", "factory_kwargs",
    "functional", "init", "parallel", "utils",
]  # fmt: skip


_MODULES = ("attention", "common_types", "intrinsic", "qat", "quantizable", "quantized")


def factory_kwargs(kwargs) -> dict:
    """Of a layer's keyword arguments those that making tensors takes: device, dtype, memory_format, and what stands in
    a dict `factory_kwargs` among them. Others raise TypeError."""
    if kwargs is None:
        return {}
    known = {"device", "dtype", "memory_format"}
    if other := set(kwargs) - known - {"factory_kwargs"}:
        raise TypeError(f"unexpected kwargs {other}")
    found = dict(kwargs.get("factory_kwargs", {}))
    for name in known & set(kwargs):
        if name in found:
            raise TypeError(f"{name} specified twice, in **kwargs and in factory_kwargs")
        found[name] = kwargs[name]
    return found


def __getattr__(name: str):
    if name in _MODULES:
        from importlib import import_module

        return import_module(f"{__name__}.{name}")
    if name in modules._LAZY:
        value = globals()[name] = getattr(modules, name)
        return value
    raise absent("torch.nn", name, f"it has {', '.join(__all__)} so far")


def __dir__() -> list:
    return sorted({*globals(), *modules._LAZY, *_MODULES})
