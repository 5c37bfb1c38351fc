"""Names of torch._C that are Python here, loaded when first asked for: modules in `_extension`, the functions of
torch.nn, torch.linalg and their like by the names that traces call them by, and types of TorchScript's graphs, which
nothing is of; PyTorch too lets no program make one."""

from __future__ import annotations


def _refuse(cls, *args, **kwargs):
    raise TypeError(f"torch._C.{cls.__name__}: No constructor defined!")


_SPACES = {f"_{name}": f"torch._C._{name}" for name in ("nn", "linalg", "fft", "special")}


def _functions_of(path: str):
    """The functions that name `path` as their module."""
    from types import SimpleNamespace

    from . import _C
    from ._tensor import _parse_to

    known = {function.__name__: function for function in _C.functions.values() if function.__module__ == path}
    if path == _SPACES["_nn"]:
        known["_parse_to"] = _parse_to  # what modules ask that answer `to` themselves
    return SimpleNamespace(**known)


def of_extension(name: str):
    """What torch._C has under this name."""
    from importlib import import_module

    from . import _C, _LAZY

    if _LAZY.get(name) == "_extension_rest":  # without a constructor, for annotations and isinstance()
        value = type(name, (), {"__new__": _refuse, "__module__": "torch._C"})
    elif name in _SPACES:
        value = _functions_of(_SPACES[name])
    elif name in ("_functorch", "_profiler"):
        value = import_module(f"narthex._C.{name}")
    elif name in ("DispatchKey", "DispatchKeySet", "_ExcludeDispatchKeyGuard"):
        value = getattr(import_module("narthex._C._dispatch_keys"), name)
    elif name.startswith(("_jit_", "_set_graph_", "_get_graph_")) and name in (
        kept := import_module("narthex._C._executor").NAMES
    ):
        value = kept[name]
    else:
        raise AttributeError(f"module 'torch._C' has no attribute '{name}'")
    setattr(_C, name, value)
    return value


__getattr__ = of_extension
