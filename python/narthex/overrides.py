"""torch.overrides: classes and modes that answer calls in the place of functions (__torch_function__).

The extension asks them (py/bind/override.c). Here are the modes, what functions written in Python ask by, and what
there is to be answered.
"""

import contextlib
import functools
import inspect
import types
import warnings

from . import _C

__all__ = [
    "get_ignored_functions", "get_overridable_functions", "get_testing_overrides", "handle_torch_function",
    "has_torch_function", "resolve_name", "is_tensor_like", "is_tensor_method_or_property", "wrap_torch_function",
    "enable_reentrant_dispatch",
]  # fmt: skip

has_torch_function = _C._has_torch_function
has_torch_function_unary = _C._has_torch_function_unary
has_torch_function_variadic = _C._has_torch_function_variadic


def handle_torch_function(public_api, relevant_args, *args, **kwargs):
    """What a mode or the classes of `relevant_args` answer to public_api(*args, **kwargs)."""
    return _C.ask_torch_function(public_api, relevant_args, args, kwargs)


def _ask_spelled(shell, function, args: tuple, kwargs: dict):
    """What is answered to a call of a Python function: told are all its arguments, those with a default by name."""
    code, defaults = function.__code__, function.__defaults__ or ()
    names, n_by_name = code.co_varnames[: code.co_argcount], code.co_argcount - len(defaults)
    if len(args) > len(names) and not code.co_flags & inspect.CO_VARARGS:
        return function(*args, **kwargs)  # which says so
    spelt = dict(zip(names[n_by_name:], defaults)) | (function.__kwdefaults__ or {})
    first = list(args[:n_by_name])
    while len(first) < n_by_name and names[len(first)] in kwargs:
        first.append(kwargs[names[len(first)]])
    known = {name: value for name, value in kwargs.items() if name not in names[: len(first)]}
    spelt.update(zip(names[n_by_name:], args[n_by_name : len(names)]))
    spelt.update(known)
    first += args[len(names) :]
    return _C.ask_torch_function(shell, (*first, *spelt.values()), tuple(first), spelt)


def wrap_torch_function(dispatcher):
    """A decorator: the function asks the protocols of what `dispatcher`, called with its arguments, gives."""

    def wrap(func):
        @functools.wraps(func)
        def wrapped(*args, **kwargs):
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return func(*args, **kwargs)

        return wrapped

    return wrap


# ---- modes
class TorchFunctionMode:
    """`with` it, every function of torch is the mode's __torch_function__(func, types, args, kwargs), whatever its
    arguments. Inside that the mode does not answer; the next one outside does."""

    inner: "TorchFunctionMode"

    def __init__(self) -> None:
        """Nothing to be set."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        raise NotImplementedError

    def __enter__(self):
        _push_mode(self)
        return self

    def __exit__(self, exc_type, exc_val, exc_tb) -> None:
        _pop_mode()

    @classmethod
    def push(cls, *args, **kwargs):
        """The class called with these arguments; deprecated."""
        warnings.warn("`Mode.push()` is no longer necessary and can be replaced with just `with Mode()`", stacklevel=2)
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """Calls the function as it was called."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def _push_mode(mode) -> None:
    _C.push_function_mode(mode)


def _pop_mode():
    return _C.pop_function_mode()


def _get_current_function_mode_stack() -> list:
    return _C.function_modes()


def _get_current_function_mode():
    modes = _C.function_modes()
    return modes[-1] if modes else None


def _is_torch_function_mode_enabled() -> bool:
    return _C._is_torch_function_mode_enabled()


@contextlib.contextmanager
def _pop_mode_temporarily():
    mode = _pop_mode()
    try:
        yield mode
    finally:
        _push_mode(mode)


@contextlib.contextmanager
def _enable_torch_function():
    before = _C.swap_function_state(0)
    try:
        yield
    finally:
        _C.swap_function_state(before)


@contextlib.contextmanager
def enable_reentrant_dispatch():
    """Inside a __torch_function__ or __torch_dispatch__: classes answer again."""
    with _enable_torch_function():
        yield


def redispatch_function(func, types, args, kwargs):
    """func(*args, **kwargs), which asks no protocol itself; what it calls does."""
    inner = getattr(func, "__wrapped__", None)
    if inner is not None:
        return inner(*args, **(kwargs or {}))
    return _C._disabled_torch_function_impl(func, types, args, kwargs)


# ---- what there is
def is_tensor_like(inp) -> bool:
    """Whether it is a tensor or has __torch_function__."""
    return type(inp) is _C_tensor() or hasattr(inp, "__torch_function__")


def _C_tensor() -> type:  # noqa: N802
    from ._tensor import Tensor

    return Tensor


def _namespaces():
    import narthex as torch

    tensor = torch.Tensor
    yield "torch", torch, [name for name in dir(torch) if name not in torch._SUBMODULES]
    for name in ("functional", "nn.functional", "nn.init"):
        module = functools.reduce(getattr, name.split("."), torch)
        yield f"torch.{name}", module, dir(module)
    yield "torch.Tensor", tensor, dir(tensor)
    for name in ("linalg", "fft", "special"):
        module = getattr(torch, name)
        yield f"torch.{name}", module, dir(module)


def _is_hidden(name: str) -> bool:
    return name.startswith("_") or name.endswith("_") or not name[0].islower()


@functools.cache
def _found() -> tuple:
    """{namespace: functions that protocols are asked for}, {function: its name}."""
    functions: dict = {}
    names: dict = {}
    ignored = get_ignored_functions()
    for prefix, space, space_names in _namespaces():
        of_tensor = isinstance(space, type)
        for name in space_names:
            if not of_tensor and name.startswith("__"):
                continue
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    value = getattr(space, name)
            except (AttributeError, RuntimeError):
                continue
            if of_tensor and (name == "__weakref__" or getattr(object, name, None) == value):
                continue
            if isinstance(value, types.ModuleType):
                continue
            hidden = not of_tensor and _is_hidden(name)
            if not callable(value):
                if not hasattr(value, "__get__"):
                    continue
                names[value.__get__] = f"{prefix}.{name}.__get__"
                names[value.__set__] = f"{prefix}.{name}.__set__"
                if not hidden and value.__get__ not in ignored:
                    functions.setdefault(value, []).append(value.__get__)
                continue
            try:
                names[value] = f"{prefix}.{name}"
            except TypeError:
                continue
            asked = isinstance(value, _ASKING) or (of_tensor and not isinstance(value, type))
            if not hidden and asked and value not in ignored:
                functions.setdefault(space, []).append(value)
    return functions, names


_ASKING = (type(_C.add), type(_C.TensorBase.add))


def get_overridable_functions() -> dict:
    """{namespace: the functions in it that ask for __torch_function__}"""
    return _found()[0]


def resolve_name(f):
    """The name of a function that protocols are asked for, by which it is found; None of others."""
    from ._ops import OpOverload, OpOverloadPacket

    if isinstance(f, (OpOverload, OpOverloadPacket)):
        return str(f)
    return _found()[1].get(f)


@functools.cache
def _tensor_methods() -> set:
    functions = get_overridable_functions()
    tensor = _C_tensor()
    return set(functions.get(tensor, ())) | {getter for key, many in functions.items() for getter in many
                                             if not isinstance(key, (type, types.ModuleType))}  # fmt: skip


def is_tensor_method_or_property(func) -> bool:
    """Whether it is a method of Tensor, or reads or writes an attribute of one."""
    return func in _tensor_methods() or getattr(func, "__name__", None) in ("__get__", "__set__")


_UNASKED = (
    "__new__", "__init__", "__init_subclass__", "__class__", "__delattr__", "__getattribute__", "__setattr__",
    "__torch_function__", "__torch_dispatch__", "__subclasshook__", "__hash__", "as_subclass", "_make_subclass",
    "_make_wrapper_subclass", "__reduce__", "__getstate__", "_take_place", "_hooks_of",
)  # fmt: skip


@functools.cache
def get_ignored_functions() -> set:
    """The public functions that ask for no __torch_function__."""
    import narthex as torch

    found = {value for name, value in vars(torch).items()
             if not name.startswith("_") and isinstance(value, (types.FunctionType, types.BuiltinFunctionType))
             and value is not torch.tensor}  # fmt: skip
    tensor = torch.Tensor
    for name in _UNASKED:
        value = getattr(tensor, name, None)
        if value is not None and not isinstance(value, type):
            found.add(value)
    return found


@functools.cache
def get_testing_overrides() -> dict:
    """{function: a lambda of its parameters that gives -1}, for every function that asks for __torch_function__."""
    made = {}
    for space, many in get_overridable_functions().items():
        for function in many:
            made[function] = _dummy(function, isinstance(space, type))
    return made


def _dummy(function, of_tensor: bool):
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        parameters = None
    if parameters is None:
        return (lambda self, *args, **kwargs: -1) if of_tensor else (lambda *args, **kwargs: -1)
    made = lambda *args, **kwargs: -1  # noqa: E731
    made.__signature__ = inspect.Signature(list(parameters))
    return made


@functools.cache
def get_default_nowrap_functions() -> set:
    """Whose results Tensor.__torch_function__ gives as they are."""
    from ._tensor import _UNWRAPPED

    return set(_UNWRAPPED)
