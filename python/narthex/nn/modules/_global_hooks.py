"""Hooks on the calls and registrations of all modules.

While there are none they cost nothing: registering the first one of calls puts another __call__ into Module, which
every class then has, and removing the last one takes it out.
"""

from collections import OrderedDict

from ... import _C
from ...utils.hooks import new_id

# Kind -> its hooks by number; with_kwargs and always: the numbers that were registered so.
HOOKS: dict = {kind: OrderedDict() for kind in ("forward_pre", "forward", "backward_pre", "backward",
                                                "parameter", "buffer", "module")}  # fmt: skip
with_kwargs: dict = {}
always: dict = {}
_OF_CALLS = ("forward_pre", "forward", "backward_pre", "backward")


class GlobalHandle:
    """What registering a hook returns: `remove()` takes the hook out again; also a context manager."""

    def __init__(self, kind: str, hook, key: int) -> None:
        self.hooks, self.id = HOOKS[kind], key
        self.hooks[key] = hook
        _switch()

    def remove(self) -> None:
        """Takes the hook out; a second call does nothing."""
        if self.hooks.pop(self.id, None) is not None:
            with_kwargs.pop(self.id, None)
            always.pop(self.id, None)
            _switch()

    def __enter__(self):
        return self

    def __exit__(self, *exception) -> None:
        self.remove()


def _switch() -> None:
    from .module import Module

    wanted = _call if any(HOOKS[kind] for kind in _OF_CALLS) else _usual_call()
    if Module.__call__ is wanted:
        return
    Module.__call__ = wanted
    if wanted is not _call:
        _quicken(Module)


_usual: list = []


def _usual_call():
    from .module import Module

    if not _usual:
        _usual.append(Module.__call__)
    return _usual[0]


def _call(self, *args, **kwargs):
    """Module.__call__ while there are hooks of all modules."""
    return (self.__dict__.get("_compiled_call_impl") or self._call_impl)(*args, **kwargs)


def _quicken(cls) -> None:
    _C.quicken_module(cls)
    for below in cls.__subclasses__():
        _quicken(below)


def _add(kind: str, hook, **how) -> GlobalHandle:
    _usual_call()
    key = new_id(HOOKS[kind])
    if how.get("with_kwargs"):
        with_kwargs[key] = True
    if how.get("always_call"):
        always[key] = True
    return GlobalHandle(kind, hook, key)


def register_module_forward_pre_hook(hook) -> GlobalHandle:
    """`hook(module, args)` is called before the forward of every module and may return other arguments."""
    return _add("forward_pre", hook)


def register_module_forward_hook(hook, *, with_kwargs: bool = False, always_call: bool = False) -> GlobalHandle:
    """`hook(module, args[, kwargs], result)` is called after the forward of every module and may return another
    result; with `always_call` also, with None, where it has raised."""
    return _add("forward", hook, with_kwargs=with_kwargs, always_call=always_call)


def register_module_full_backward_hook(hook) -> GlobalHandle:
    """`hook(module, grad_input, grad_output)` is called when the gradients of any module's inputs are there."""
    return _add("backward", hook)


def register_module_full_backward_pre_hook(hook) -> GlobalHandle:
    """`hook(module, grad_output)` is called when the gradients of any module's results are there."""
    return _add("backward_pre", hook)


def register_module_backward_hook(hook) -> GlobalHandle:
    """The old name: register_module_full_backward_hook."""
    return register_module_full_backward_hook(hook)


def register_module_parameter_registration_hook(hook) -> GlobalHandle:
    """`hook(module, name, parameter)` is called when a module gets a parameter and may return another one."""
    return _add("parameter", hook)


def register_module_buffer_registration_hook(hook) -> GlobalHandle:
    """`hook(module, name, buffer)` is called when a module gets a buffer and may return another one."""
    return _add("buffer", hook)


def register_module_module_registration_hook(hook) -> GlobalHandle:
    """`hook(module, name, submodule)` is called when a module gets a submodule and may return another one."""
    return _add("module", hook)


def registered(kind: str, module, name: str, value):
    """`value` as the hooks of registrations change it."""
    for hook in list(HOOKS[kind].values()):
        changed = hook(module, name, value)
        value = value if changed is None else changed
    return value
