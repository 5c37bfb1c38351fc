"""torch.ao: quantised models are not there. Networks that mark where they would be quantised run, in floats."""

from importlib import import_module

from .._absent import absent


def __getattr__(name: str):
    if name in ("nn", "quantization"):
        return import_module(f"{__name__}.{name}")
    raise absent("torch.ao", name)
