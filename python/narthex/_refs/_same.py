"""How the modules of torch._refs answer: with torch's own functions."""

from importlib import import_module

from .._absent import absent


def getter(module: str, own: str):
    """A `__getattr__` for torch._refs<module>: the functions of `own`, a module of Narthex."""

    def getattr_(name: str):
        value = None if name.startswith("__") else getattr(import_module(own), name, None)
        if not callable(value) or isinstance(value, type):
            raise absent(f"torch._refs{module}", name)
        return value

    return getattr_
