"""torch.nn.quantized: the older place of torch.ao.nn.quantized."""

from ...ao.nn import quantized as _now

__all__ = list(_now.__all__)
globals().update({name: getattr(_now, name) for name in __all__})


def __getattr__(name: str):
    if name in ("dynamic", "functional", "modules"):
        from importlib import import_module

        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module 'torch.nn.quantized' has no attribute '{name}'")
