"""Modules whose parameters are not filled with starting values."""

from ... import _C
from ..modules.module import Module

__all__ = ["skip_init"]


def skip_init(module_cls, *args, **kwargs):
    """An instance of `module_cls` whose parameters hold anything, and without random numbers drawn."""
    if not (isinstance(module_cls, type) and issubclass(module_cls, Module)):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    from inspect import signature

    if "device" not in signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    state = _C.default_generator.get_state()
    try:
        return module_cls(*args, **kwargs)
    finally:
        _C.default_generator.set_state(state)
