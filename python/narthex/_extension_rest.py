"""Names of torch._C that are Python here, loaded when first asked for: modules in `_extension`, and types of
TorchScript's graphs, which nothing is of; PyTorch too lets no program make one."""

from __future__ import annotations


def _refuse(cls, *args, **kwargs):
    raise TypeError(f"torch._C.{cls.__name__}: No constructor defined!")


def of_extension(name: str):
    """What torch._C has under this name."""
    from importlib import import_module

    from . import _C, _LAZY

    if _LAZY.get(name) == "_extension_rest":  # without a constructor, for annotations and isinstance()
        value = type(name, (), {"__new__": _refuse, "__module__": "torch._C"})
    elif name in ("_functorch", "_profiler"):
        value = import_module(f"narthex._C.{name}")
    elif name in ("DispatchKey", "DispatchKeySet", "_ExcludeDispatchKeyGuard"):
        value = getattr(import_module("narthex._C._dispatch_keys"), name)
    else:
        raise AttributeError(f"module 'torch._C' has no attribute '{name}'")
    setattr(_C, name, value)
    return value


__getattr__ = of_extension
