"""torch.utils._python_dispatch: modes and classes of tensors that answer operators, below autograd.

The extension asks them (py/bind/dispatch.c), with an operator of torch.ops and the arguments of its schema.
"""

import contextlib
import warnings

from .. import _C


class TorchDispatchMode:
    """`with` it, every operator is the mode's __torch_dispatch__(func, types, args, kwargs), whatever its arguments.
    Inside that the mode does not answer; the next one outside does."""

    supports_higher_order_operators = False

    def __init__(self, _dispatch_key=None) -> None:
        if _dispatch_key is not None:
            raise NotImplementedError("TorchDispatchMode: modes of one dispatch key are not there yet")

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
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

    @classmethod
    def is_infra_mode(cls) -> bool:
        """False."""
        return False


class BaseTorchDispatchMode(TorchDispatchMode):
    """Calls the operator as it was called."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def _push_mode(mode) -> None:
    _C.push_dispatch_mode(mode)


def _pop_mode():
    return _C.pop_dispatch_mode()


def _get_current_dispatch_mode_stack() -> list:
    return _C.dispatch_modes()


def _get_current_dispatch_mode():
    modes = _C.dispatch_modes()
    return modes[-1] if modes else None


def is_in_torch_dispatch_mode(include_infra_modes: bool = True) -> bool:
    """Whether a mode answers operators here."""
    return bool(_C.dispatch_modes())


def any_torch_dispatch_mode_on_stack() -> bool:
    """The same."""
    return bool(_C.dispatch_modes())


@contextlib.contextmanager
def _pop_mode_temporarily():
    mode = _pop_mode()
    try:
        yield mode
    finally:
        _push_mode(mode)


@contextlib.contextmanager
def _disable_current_modes():
    modes = _C.dispatch_modes()
    for _ in modes:
        _pop_mode()
    try:
        yield modes
    finally:
        for mode in modes:
            _push_mode(mode)


def is_traceable_wrapper_subclass(t) -> bool:
    """Whether it is a tensor that says what it is made of: __tensor_flatten__ and __tensor_unflatten__."""
    return isinstance(t, _C.TensorBase) and is_traceable_wrapper_subclass_type(type(t))


def is_traceable_wrapper_subclass_type(t: type) -> bool:
    """The same of a class."""
    protocol = hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")
    return issubclass(t, _C.TensorBase) and protocol


def transform_subclass(t, callback, outer_size=None, outer_stride=None):
    """A tensor like `t`, made of callback(name, part) in the place of each part."""
    size = t.size() if outer_size is None else outer_size
    stride = t.stride() if outer_stride is None else outer_stride
    names, context = t.__tensor_flatten__()
    made = type(t).__tensor_unflatten__(
        {name: callback(name, getattr(t, name)) for name in names}, context, size, stride
    )
    if made.shape != size:
        raise AssertionError(
            f"Expected return value from {type(t)}__tensor_unflatten__() to have shape equal to {size}, but got: "
            f"{made.shape}"
        )
    return made


def return_and_correct_aliasing(func, args, kwargs, out):
    """`out`, or for an operator that writes an argument and returns it, that very argument."""
    given, _, returns = str(func._schema).partition(" -> ")
    if "!" not in returns:
        return out
    keywords = kwargs or {}
    inside = given[given.index("(") + 1 : given.rindex(")")]
    written = [(k, part) for k, part in enumerate(part for part in inside.split(", ") if part != "*") if "!" in part]
    found = []
    for k, part in written:
        name = part.split("=")[0].rpartition(" ")[2]
        found.append(args[k] if k < len(args) else keywords[name])
    return found[0] if len(found) == 1 else tuple(found)
