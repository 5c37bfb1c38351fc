"""torch.utils.hooks: what registering a hook returns, and what belongs to hooks."""

import warnings
import weakref
from collections import OrderedDict

__all__ = ["BackwardHook", "RemovableHandle", "unserializable_hook", "warn_if_has_hooks"]


class RemovableHandle:
    """`remove()` takes the hook out again; also a context manager.

    It holds the dict weakly, so a handle keeps no module alive. `extra_dict`, one dict or several: where the same
    number is taken out as well.
    """

    next_id = 0

    def __init__(self, hooks_dict, *, extra_dict=None) -> None:
        extra = extra_dict if isinstance(extra_dict, list) else [] if extra_dict is None else [extra_dict]
        self._point_to(hooks_dict, *extra)
        self.id = new_id(hooks_dict)

    def _point_to(self, hooks_dict, *extra) -> None:
        self.hooks_dict_ref = _reference(hooks_dict)
        self.extra_dict_ref = tuple(_reference(each) for each in extra)

    @classmethod
    def of(cls, hooks_dict: dict, hook) -> "RemovableHandle":
        """Puts `hook` into the dict; the handle that takes it out."""
        handle = cls(hooks_dict)
        hooks_dict[handle.id] = hook
        return handle

    def remove(self) -> None:
        """Takes the hook out; a second call does nothing."""
        for reference in (self.hooks_dict_ref, *self.extra_dict_ref):
            hooks = reference()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __getstate__(self):
        if not self.extra_dict_ref:
            return self.hooks_dict_ref(), self.id
        return self.hooks_dict_ref(), self.id, tuple(reference() for reference in self.extra_dict_ref)

    def __setstate__(self, state) -> None:
        hooks, self.id, *extra = state
        self._point_to(OrderedDict() if hooks is None else hooks, *(extra[0] if extra else ()))
        RemovableHandle.next_id = max(RemovableHandle.next_id, self.id + 1)

    def __enter__(self):
        return self

    def __exit__(self, *exception) -> None:
        self.remove()


def _reference(hooks):
    """A weak reference to the dict; a plain dict, which has none, is held."""
    return (lambda: hooks) if type(hooks) is dict else weakref.ref(hooks)


def new_id(hooks_dict) -> int:
    """A key that the dict does not have."""
    RemovableHandle.next_id += 1
    return RemovableHandle.next_id - 1


def unserializable_hook(f):
    """Marks a hook so that saving a tensor that has it warns."""
    f.__torch_unserializable__ = True
    return f


def warn_if_has_hooks(tensor) -> None:
    """Warns of each hook of the tensor that saving it will leave out and that is not marked as such."""
    for hook in tensor._hooks_of(False).values() if tensor.requires_grad else ():
        if not hasattr(hook, "__torch_unserializable__"):
            warnings.warn(
                f"backward hook {hook!r} on tensor will not be serialized.  If this is expected, you can decorate the "
                "function with @torch.utils.hooks.unserializable_hook to suppress this warning",
                stacklevel=2,
            )


class BackwardHook:
    """Watches the gradients of one call of `module`: of its inputs and of its results, for the hooks given.

    `setup_input_hook(args)` and `setup_output_hook(results)` give the tensors that the call is to use instead.
    """

    def __init__(self, module, user_hooks, user_pre_hooks) -> None:
        self.module, self.user_hooks, self.user_pre_hooks = module, user_hooks, user_pre_hooks
        self._call = None

    def setup_input_hook(self, args):
        """The arguments with their gradients watched."""
        from ..nn.modules._backward_hooks import BackwardHooks

        self._call = BackwardHooks(self.module, args, list(self.user_hooks), list(self.user_pre_hooks))
        return self._call.args

    def setup_output_hook(self, args):
        """The results with their gradients watched."""
        if self._call is None:
            self.setup_input_hook(())
        return self._call.watch(args)
