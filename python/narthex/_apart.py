"""Functions that are never captured: torch.compiler.disable."""

from functools import partial, update_wrapper
from types import FunctionType, MethodType


class _Apart(partial):
    """A function that is never captured: C code that the tracer does not know calls it."""

    def __get__(self, instance, owner=None):
        return self if instance is None else _Apart(self.func, instance)


def disable(fn=None, recursive: bool = True, *, reason=None, wrapping: bool = True):
    """A callable like `fn` that is never captured: a call of it splits the graph and runs uncompiled. What it calls
    runs uncompiled too; with recursive=False, of functions and methods, that is compiled."""
    if fn is None:
        return partial(disable, recursive=recursive, reason=reason, wrapping=wrapping)
    function = getattr(fn, "__func__", fn)
    if recursive or not isinstance(function, FunctionType):
        return update_wrapper(_Apart(fn), fn)
    from ._dynamo.types import skip_code

    own = FunctionType(
        function.__code__.replace(),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    skip_code(own.__code__)  # a code object of its own: what has the other one is captured as before
    own.__kwdefaults__ = function.__kwdefaults__
    update_wrapper(own, function)
    own._torchdynamo_disable, own._torchdynamo_disable_msg, own._torchdynamo_disable_recursive = True, reason, False
    own._torchdynamo_orig_callable, own._torchdynamo_wrapper_id = function, id(own)
    return own if function is fn else MethodType(own, fn.__self__)
