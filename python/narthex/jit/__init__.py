"""torch.jit: scripts and traces, and the archives that they are saved in: written, loaded and run. Code runs eagerly;
torch.compile is the way to a graph."""

import contextlib
import functools
import inspect
import sys
import warnings
from typing import Final as Final

from .._absent import getter

_told = False


def _tell(why: str) -> None:
    global _told
    if not _told:
        _told = True
        warnings.warn(f"jit.script gives back what it was given, since it has no code for it: {why}", stacklevel=3)


def script(obj, *args, **kwargs):
    """The script module of a module: its forward and what that calls as code of an archive, over the same parameters
    and buffers. Of a function: a ScriptFunction. Everything else, and a module whose source cannot be written as
    TorchScript, is given back as it is, with one notice a process: it runs eagerly, with the same results."""
    from builtins import isinstance as is_instance

    from .. import nn

    if is_instance(obj, (ScriptModule, ScriptFunction)):
        return obj
    if inspect.isroutine(obj):
        return ScriptFunction(obj)
    if not is_instance(obj, nn.Module):
        return obj
    from ._script import Unsupported, script_module

    try:
        return script_module(obj)
    except Unsupported as wrong:
        _tell(wrong.what)
        return obj


def _marked(fn, mark: str):
    try:
        fn._jit_mark = mark
    except AttributeError:  # what is no function of Python
        pass
    return fn


def _get_trace_graph(
    f, args=(), kwargs=None, strict: bool = True, _force_outplace: bool = False, return_inputs: bool = False,
    _return_inputs_states: bool = False,
):  # fmt: skip
    """(graph, outputs) of f(*args, **kwargs): the operators that it calls as nodes to read, see _graph.py. With
    return_inputs the inputs, too."""
    from ._graph import trace_graph

    found = trace_graph(f, args, kwargs)
    return (*found, args if type(args) is tuple else (args,)) if return_inputs else found


def script_if_tracing(fn):
    """`fn` as it is: traces follow it."""
    return fn


def interface(obj):
    """`obj` as it is."""
    return obj


def ignore(drop=False, **kwargs):
    """A decorator, with or without arguments: a method that stays Python, so that no script can call it."""
    return _marked(drop, "ignore") if callable(drop) else lambda fn: _marked(fn, "unused" if drop else "ignore")


def unused(fn):
    """Marks a method: in scripts a call of it raises."""
    return _marked(fn, "unused")


def export(fn):
    """Marks a method that scripts have beside forward."""
    return _marked(fn, "export")


def script_method(fn):
    """Marks a method of a ScriptModule of one's own."""
    return _marked(fn, "export")


def _overload(fn):
    return fn


def _overload_method(fn):
    return fn


def _script_if_tracing(fn):
    return fn


def trace(
    func,
    example_inputs=None,
    optimize=None,
    check_trace: bool = True,
    check_inputs=None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class=None,
    _compilation_unit=None,
    example_kwarg_inputs: dict | None = None,
    _store_inputs: bool = True,
):
    """A script module of what `func`, a module or a function, calls with example_inputs (a tensor or a tuple of
    tensors, lists, tuples and dicts of them): the operators in their order, as the code of a TorchScript archive.

    Sizes of tensors may differ later where `func` computes with them; branches and numbers that are read from tensors
    stay as they were, with a TracerWarning. check_trace calls both once more and warns where results differ by more
    than check_tolerance. strict=False: a dict may be returned. Parameters and buffers are those of `func`.
    """
    from builtins import isinstance as is_instance

    if is_instance(func, ScriptModule):
        return func
    if example_inputs is not None and example_kwarg_inputs is not None:
        raise RuntimeError("example_inputs and example_kwarg_inputs should not be both set")
    if example_inputs is None and example_kwarg_inputs is None:
        raise RuntimeError("example_inputs and example_kwarg_inputs should be set")
    by_name = example_kwarg_inputs is not None
    inputs = {"forward": example_kwarg_inputs if by_name else example_inputs}
    owner = func if hasattr(func, "forward") else None
    return _traced(owner, inputs, {"forward": func}, check_trace, check_tolerance, strict, by_name)


def trace_module(
    mod,
    inputs: dict,
    optimize=None,
    check_trace: bool = True,
    check_inputs=None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class=None,
    _compilation_unit=None,
    example_inputs_is_kwarg: bool = False,
    _store_inputs: bool = True,
):
    """trace of several methods: inputs gives the example inputs of each by its name."""
    functions = {name: mod if name == "forward" else getattr(mod, name) for name in inputs}
    return _traced(mod, inputs, functions, check_trace, check_tolerance, strict, example_inputs_is_kwarg)


def _traced(owner, inputs: dict, functions: dict, checks: bool, tolerance: float, strict: bool, by_name: bool):
    from . import _trace as tracing

    methods = {}
    for name, given in inputs.items():
        args = () if by_name else tuple(given) if type(given) in (list, tuple) else (given,)
        methods[name] = functions[name], args, dict(given) if by_name else {}
    title = getattr(functions.get("forward"), "__name__", "Function")
    made = tracing.record(owner, methods, strict, title if title.isidentifier() else "Function")
    if checks:
        for name, (function, args, kwargs) in methods.items():
            tracing.check(made, name, function, args, kwargs, tolerance)
    return made


def load(f, map_location=None, _extra_files=None, _restore_shapes=False):
    """The module of a TorchScript archive, a path or a binary file; its code runs eagerly, as the Python it nearly is.

    Nothing but operators and the archive's own functions can be called by it. _extra_files: a dictionary whose values
    become the contents of the archive's extra files of those names.
    """
    from ._archive import open_archive

    return open_archive(f, map_location, _extra_files)


def save(m, f, _extra_files=None) -> None:
    """Writes a scripted, traced or loaded module to a path or a binary file, for torch.jit.load here and in PyTorch.

    _extra_files: {name: text or bytes}, written beside it.
    """
    from builtins import isinstance as is_instance

    if not is_instance(m, (ScriptModule, ScriptFunction)):
        raise NotImplementedError(
            f"jit.save: a {type(m).__name__} has no code to save: {_reason(m)}save torch.jit.script(m) or "
            "torch.jit.trace(m, inputs)"
        )
    m.save(f, _extra_files)


def _reason(m) -> str:
    """What a module cannot be scripted for."""
    from .. import nn
    from ._script import Unsupported, script_module

    if nn.Module not in type(m).__mro__:
        return ""
    try:
        script_module(m)
    except Unsupported as wrong:
        return f"{wrong.what}. "
    return ""


def freeze(mod, preserved_attrs=None, optimize_numerics: bool = True):
    """`mod`, which has to be a traced or loaded module in eval mode: its code is run as it is."""
    from builtins import isinstance as is_instance

    if not is_instance(mod, ScriptModule):
        raise RuntimeError(
            "Freezing expects a ScriptModule as input. Please use torch.jit.script or torch.jit.trace to script your "
            "'nn.Module'."
        )
    if mod.training:
        raise RuntimeError(
            "Freezing is currently only implemented for modules in eval mode. Please call .eval() on your module "
            "before freezing."
        )
    return mod


def optimize_for_inference(mod, other_methods=None):
    """`mod` as freeze gives it."""
    return freeze(mod.eval(), other_methods)


def run_frozen_optimizations(mod, optimize_numerics: bool = True, preserved_methods=None) -> None:
    """Nothing: code is run as it is."""


def fork(func, *args, **kwargs):
    """A future that holds func(*args, **kwargs), which is called at once."""
    from ..futures import Future

    made = Future()
    made.set_result(func(*args, **kwargs))
    return made


def wait(future):
    """What a future holds."""
    return future.wait()


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
    """Whether this is inside of torch.jit.trace."""
    tracing = sys.modules.get(f"{__name__}._trace")
    return bool(tracing and tracing._tracing)


@contextlib.contextmanager
def optimized_execution(should_optimize: bool):
    """Nothing: code is run as it is."""
    yield


@contextlib.contextmanager
def fuser(name: str):
    """Nothing: code is run as it is."""
    yield


def set_fusion_strategy(strategy) -> list:
    """Nothing: code is run as it is."""
    return []


class Error(RuntimeError):
    """What a script raises."""


JITException = Error


class FatalError(Exception):
    """What PyTorch raises of errors inside of itself."""


class TracerWarning(Warning):
    """What is read from a tensor while it is traced stays as it is."""

    @staticmethod
    def ignore_lib_warnings() -> None:
        """Nothing: the library's own reads do not warn."""


class TracingCheckError(Exception):
    """A trace cannot be called with the inputs that it was made with."""


class _KindOfScriptModule(type):
    """Makes a class of one's own over ScriptModule a class of modules."""

    def __new__(cls, name: str, bases: tuple, space: dict):
        if bases and not space["__module__"].startswith(f"{__package__}"):
            from ..nn import Module

            if not any(issubclass(base, Module) for base in bases):
                bases = (*bases, Module)
        return super().__new__(cls, name, bases, space)


class ScriptModule(metaclass=_KindOfScriptModule):
    """A module with code: what script, trace and load give. A class of one's own over it is a class of modules that run
    as the Python that they are; their code is written when they are saved."""

    def _scripted(self):
        from ._script import Unsupported, script_module

        try:
            return script_module(self)
        except Unsupported as wrong:
            raise NotImplementedError(f"jit.script has no code for {type(self).__name__}: {wrong.what}") from None

    @property
    def code(self) -> str:
        """The code of forward."""
        return self._scripted().code

    def save(self, f, _extra_files=None) -> None:
        """Writes an archive to a path or a binary file."""
        self._scripted().save(f, _extra_files)

    def save_to_buffer(self, _extra_files=None) -> bytes:
        """The bytes of an archive."""
        return self._scripted().save_to_buffer(_extra_files)


class RecursiveScriptModule(ScriptModule):
    """A module with code."""


class ScriptFunction:
    """A scripted function. A call runs the function as it is in Python; its code is written when it is asked for."""

    def __init__(self, fn) -> None:
        functools.update_wrapper(self, fn)

    def __call__(self, *args, **kwargs):
        return self.__wrapped__(*args, **kwargs)

    def __get__(self, owner, kind=None):
        return self if owner is None else self.__wrapped__.__get__(owner, kind)

    def __copy__(self) -> "ScriptFunction":
        return self

    def __deepcopy__(self, known: dict) -> "ScriptFunction":
        return self

    def __reduce__(self) -> str:
        return self.__qualname__

    def _scripted(self):
        from ._script import Unsupported, script_function

        try:
            return script_function(self.__wrapped__)
        except Unsupported as wrong:
            raise NotImplementedError(f"jit.script has no code for {self.__name__}: {wrong.what}") from None

    @property
    def code(self) -> str:
        """The code of the function."""
        return self._scripted()._function_code

    def save(self, f, _extra_files=None) -> None:
        """Writes an archive of a module whose forward is the function."""
        self._scripted().save(f, _extra_files)

    def save_to_buffer(self, _extra_files=None) -> bytes:
        """The bytes of that archive."""
        return self._scripted().save_to_buffer(_extra_files)


class TracedModule(ScriptModule):
    """A module that was traced."""


class TopLevelTracedModule(TracedModule):
    """A module that was traced."""


_absent = getter("torch.jit")


def __getattr__(name: str):
    if name == "_builtins":
        from importlib import import_module

        return import_module(f"{__name__}.{name}")
    return _absent(name)

