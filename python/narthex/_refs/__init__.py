"""torch._refs: PyTorch's operators, written in others. Here an operator has one definition: a name is torch's own."""

from importlib import import_module

from . import _same

_find = _same.getter("", "narthex")


def __getattr__(name: str):
    if name in ("fft", "linalg", "nn", "special"):
        return import_module(f"{__name__}.{name}")
    return _find(name)
