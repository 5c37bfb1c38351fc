"""torch.jit: archives that PyTorch's scripts and traces were saved in are loaded and run. Scripts and traces of its own
are not there yet: what marks code for them hands the code back as it is, so that packages import and run eagerly;
torch.compile is the way to a graph."""

import contextlib
import warnings
from typing import Final as Final

from .._absent import getter

_told = False


def _tell() -> None:
    global _told
    if not _told:
        _told = True
        warnings.warn("jit.script gives back what it was given, uncompiled: use torch.compile", stacklevel=3)


def script(obj, *args, **kwargs):
    """`obj` as it is, with one notice a process: it runs eagerly, with the same results."""
    _tell()
    return obj


def script_if_tracing(fn):
    """`fn` as it is: nothing is traced."""
    return fn


def interface(obj):
    """`obj` as it is."""
    return obj


def ignore(drop=False, **kwargs):
    """A decorator, with or without arguments: the function as it is."""
    return drop if callable(drop) else lambda fn: fn


def unused(fn):
    """`fn` as it is."""
    return fn


def export(fn):
    """`fn` as it is."""
    return fn


def _overload(fn):
    return fn


def _overload_method(fn):
    return fn


def _script_if_tracing(fn):
    return fn


def trace(func, example_inputs=None, *args, **kwargs):
    """Raises NotImplementedError."""
    raise NotImplementedError("jit.trace is not there yet: use torch.compile")


def trace_module(mod, inputs, *args, **kwargs):
    """Raises NotImplementedError."""
    raise NotImplementedError("jit.trace_module is not there yet: use torch.compile")


def load(f, map_location=None, _extra_files=None, _restore_shapes=False):
    """The module of a TorchScript archive, a path or a binary file; its code runs eagerly, as the Python it nearly is.

    Nothing but operators and the archive's own functions can be called by it. _extra_files: a dictionary whose values
    become the contents of the archive's extra files of those names.
    """
    from ._archive import open_archive

    return open_archive(f, map_location, _extra_files)


def save(m, f, *args, **kwargs):
    """Raises NotImplementedError."""
    raise NotImplementedError("jit.save is not there yet: use torch.save(m.state_dict(), f) or torch.export")


def freeze(mod, *args, **kwargs):
    """Raises NotImplementedError."""
    raise NotImplementedError("jit.freeze is not there yet: use torch.compile")


def annotate(the_type, the_value):
    """`the_value`."""
    return the_value


def isinstance(obj, target_type) -> bool:
    """As Python's; a list of types is any of them."""
    from builtins import isinstance as is_instance

    return is_instance(obj, tuple(target_type) if is_instance(target_type, (list, tuple)) else target_type)


def is_scripting() -> bool:
    """Always False."""
    return False


def is_tracing() -> bool:
    """Always False."""
    return False


@contextlib.contextmanager
def optimized_execution(should_optimize: bool):
    """Nothing: there is no script to optimize."""
    yield


@contextlib.contextmanager
def fuser(name: str):
    """Nothing: there is no script to fuse."""
    yield


def set_fusion_strategy(strategy) -> list:
    """Nothing: there is no script to fuse."""
    return []


class Error(RuntimeError):
    """What a script raises."""


class ScriptModule:
    """A scripted module: none is ever made; programs ask isinstance."""

    def __init__(self, *args, **kwargs) -> None:
        raise NotImplementedError("jit.ScriptModule is not there yet: use nn.Module")


class RecursiveScriptModule(ScriptModule):
    """A scripted module made of a module: none is ever made."""


class ScriptFunction:
    """A scripted function: none is ever made; programs ask isinstance."""

    def __init__(self, *args, **kwargs) -> None:
        raise NotImplementedError("jit.ScriptFunction is not there yet: use torch.compile")


class TracedModule(ScriptModule):
    """A traced module: none is ever made."""


TopLevelTracedModule = TracedModule

__getattr__ = getter("torch.jit")
