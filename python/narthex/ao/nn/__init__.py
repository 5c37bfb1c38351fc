"""torch.ao.nn: layers that models for integers are made of. Layers of the float model that stand for one step
(`intrinsic`) and operators that are observed (`quantized.FloatFunctional`) compute in floats; the rest raises."""

from importlib import import_module

from ..._absent import absent


def __getattr__(name: str):
    if name in ("intrinsic", "qat", "quantizable", "quantized"):
        return import_module(f"{__name__}.{name}")
    raise absent("torch.ao.nn", name)
