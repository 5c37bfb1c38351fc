"""torch.utils: what stands beside models. `data` feeds them."""

from .._absent import absent

_SUBMODULES = ("_pytree", "checkpoint", "data", "dlpack", "flop_counter", "hooks", "model_zoo", "module_tracker")


def set_module(obj, mod) -> None:
    """Gives an object another `__module__`, to print with."""
    if not isinstance(mod, str):
        raise TypeError("The mod argument should be a string")
    obj.__module__ = mod


def __getattr__(name: str):
    if name in _SUBMODULES:
        from importlib import import_module

        return import_module(f"{__name__}.{name}")
    raise absent("torch.utils", name)
