"""torch.utils: what stands beside models. `data` feeds them."""

from .._absent import absent


def __getattr__(name: str):
    if name in ("_pytree", "checkpoint", "data", "hooks"):
        from importlib import import_module

        return import_module(f"{__name__}.{name}")
    raise absent("torch.utils", name)
