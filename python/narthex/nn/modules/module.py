"""class Module: a tree of parameters, buffers and submodules with a forward function.

Parameters, buffers and submodules live in three dictionaries and are found through __getattr__, as in PyTorch. A call
without hooks is one test and the call of forward: capture goes through this code on every nested module.
"""

import warnings
from collections import OrderedDict, namedtuple
from collections.abc import Mapping
from functools import partial

from ... import _C
from ..._tensor import Tensor
from ...autograd.grad_mode import no_grad
from ...utils.hooks import new_id
from ..parameter import Buffer, Parameter
from . import _global_hooks
from ._backward_hooks import watched_call


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ("missing_keys", "unexpected_keys"))):
    """What load_state_dict found no place or no value for."""

    def __repr__(self) -> str:
        return (
            "<All keys matched successfully>" if not (self.missing_keys or self.unexpected_keys) else super().__repr__()
        )


class RemovableHandle:
    """What registering a hook returns: `remove()` takes the hook out again; also a context manager."""

    def __init__(self, module, hooks: dict) -> None:
        self.module, self.hooks = module, hooks
        self.id = new_id(hooks)

    def remove(self) -> None:
        """Takes the hook out; a second call does nothing."""
        if self.hooks.pop(self.id, None) is not None:
            self.module._hooks_changed()

    def __enter__(self):
        return self

    def __exit__(self, *exception) -> None:
        self.remove()


_EXTRA_STATE_KEY_SUFFIX = "_extra_state"
_DICTIONARIES = ("_parameters", "_buffers", "_modules")
# The dicts of hooks that a module has once they are asked for; some packages look into them.
_HOOKS = frozenset(
    f"_{kind}_hooks"
    for kind in "backward backward_pre state_dict state_dict_pre load_state_dict_pre load_state_dict_post".split()
)


class Module:
    """Base class of all neural-network modules."""

    training: bool

    def __init__(self, *args, **kwargs) -> None:
        if args or kwargs:
            raise TypeError(
                f"{type(self).__name__}.__init__() takes no arguments for Module, got {len(args) + len(kwargs)}"
            )
        # object.__setattr__: the checks of ours need the dictionaries.
        put = object.__setattr__
        put(self, "training", True)
        put(self, "_parameters", {})
        put(self, "_buffers", {})
        put(self, "_non_persistent_buffers_set", set())
        put(self, "_modules", {})
        put(self, "_forward_hooks", OrderedDict())
        put(self, "_forward_pre_hooks", OrderedDict())
        put(self, "_has_hooks", False)

    def forward(self, *input):
        """What a call computes; subclasses define it."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    def __init_subclass__(cls, **kwargs) -> None:
        super().__init_subclass__(**kwargs)
        _C.quicken_module(cls)

    # ---- calls and hooks -------------------------------------------------------------------------------------

    def __call__(self, *args, **kwargs):
        if self._has_hooks:
            compiled = self.__dict__.get("_compiled_call_impl")
            return (compiled or self._call_impl)(*args, **kwargs)
        return self.forward(*args, **kwargs)

    def _call_impl(self, *args, **kwargs):
        """A call that is not compiled: forward with the hooks around it."""
        always = {**_global_hooks.always, **self.__dict__.get("_forward_hooks_always_called", {})}
        if not always:
            return self._call_hooked(args, kwargs, set())
        called: set = set()
        try:
            return self._call_hooked(args, kwargs, called)
        except BaseException:
            for key, hook, takes_kwargs in self._hooks_of("forward"):
                if key in always and key not in called:
                    hook(self, args, kwargs, None) if takes_kwargs else hook(self, args, None)
            raise

    def _hooks_of(self, kind: str) -> list:
        """(key, hook, whether it gets kwargs) of the forward or forward_pre hooks of all modules, then of this one."""
        hooks = _global_hooks.HOOKS[kind]
        found = [(key, hook, key in _global_hooks.with_kwargs) for key, hook in hooks.items()] if hooks else []
        takes_kwargs = self.__dict__.get(f"_{kind}_hooks_with_kwargs", ())
        return found + [(key, hook, key in takes_kwargs) for key, hook in self.__dict__[f"_{kind}_hooks"].items()]

    def _call_hooked(self, args: tuple, kwargs: dict, called: set):
        """`called` gets the keys of the forward hooks that were called."""
        for _, hook, takes_kwargs in self._hooks_of("forward_pre"):
            changed = hook(self, args, kwargs) if takes_kwargs else hook(self, args)
            if changed is not None and takes_kwargs:
                if not (isinstance(changed, tuple) and len(changed) == 2):
                    raise RuntimeError(
                        f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {changed}."
                    )
                args, kwargs = changed
            elif changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
        around = watched_call(self, args)
        result = self.forward(*(args if around is None else around.args), **kwargs)
        for key, hook, takes_kwargs in self._hooks_of("forward"):
            called.add(key)
            changed = hook(self, args, kwargs, result) if takes_kwargs else hook(self, args, result)
            result = result if changed is None else changed
        return result if around is None else around.watch(result)

    def _hooks_changed(self) -> None:
        """_has_hooks: a call is more than one of forward."""
        own = self.__dict__
        hooked = self._forward_hooks or self._forward_pre_hooks or "_compiled_call_impl" in own
        hooked = hooked or own.get("_backward_hooks") or own.get("_backward_pre_hooks")
        object.__setattr__(self, "_has_hooks", bool(hooked))

    def __getstate__(self) -> dict:
        """Copies and pickles are not compiled, and have what PyTorch's __setstate__ does not add."""
        state = {"_backward_hooks": OrderedDict(), "_forward_hooks_with_kwargs": OrderedDict(), **self.__dict__}
        if state.pop("_compiled_call_impl", None) is not None:
            names = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
            state["_has_hooks"] = any(state.get(name) for name in names)
        return state

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        if "_has_hooks" not in state:  # PyTorch wrote it
            self._hooks_changed()

    def _register(self, name: str, hook, prepend: bool, with_kwargs: bool = False) -> RemovableHandle:
        hooks = self._own(name)
        handle = RemovableHandle(self, hooks)
        hooks[handle.id] = hook
        if with_kwargs:
            self._own(name + "_with_kwargs")[handle.id] = True
        if prepend:
            hooks.move_to_end(handle.id, last=False)
        self._hooks_changed()
        return handle

    def register_forward_pre_hook(self, hook, *, prepend: bool = False, with_kwargs: bool = False) -> RemovableHandle:
        """`hook(module, args[, kwargs])` is called before forward and may return other arguments."""
        return self._register("_forward_pre_hooks", hook, prepend, with_kwargs)

    def register_forward_hook(
        self, hook, *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """`hook(module, args[, kwargs], result)` is called after forward and may return another result; with
        `always_call` also, with None, where forward or another hook has raised."""
        handle = self._register("_forward_hooks", hook, prepend, with_kwargs)
        if always_call:
            self._own("_forward_hooks_always_called")[handle.id] = True
        return handle

    def _own(self, name: str) -> OrderedDict:
        """A dict of hooks of this module, made when it is first asked for."""
        if name not in self.__dict__:
            object.__setattr__(self, name, OrderedDict())
        return self.__dict__[name]

    def register_full_backward_hook(self, hook, prepend: bool = False) -> RemovableHandle:
        """`hook(module, grad_input, grad_output)` is called when the gradients of the inputs are there, and may return
        others. Arguments that are given by keyword have none."""
        return self._register("_backward_hooks", hook, prepend)

    def register_full_backward_pre_hook(self, hook, prepend: bool = False) -> RemovableHandle:
        """`hook(module, grad_output)` is called when the gradients of the results are there, and may return others."""
        return self._register("_backward_pre_hooks", hook, prepend)

    def register_backward_hook(self, hook) -> RemovableHandle:
        """The old name: register_full_backward_hook."""
        return self.register_full_backward_hook(hook)

    def register_state_dict_pre_hook(self, hook) -> RemovableHandle:
        """`hook(module, prefix, keep_vars)` is called before the module's part of a state_dict is made."""
        return self._keep("_state_dict_pre_hooks", hook)

    def register_state_dict_post_hook(self, hook) -> RemovableHandle:
        """`hook(module, state_dict, prefix, local_metadata)` is called after it is made and changes it in place."""

        def checked(module, state_dict, prefix, local_metadata) -> None:
            if hook(module, state_dict, prefix, local_metadata) is not None:
                raise RuntimeError("state_dict post-hook must return None")

        return self._keep("_state_dict_hooks", checked)

    def _register_state_dict_hook(self, hook) -> RemovableHandle:
        """As the public one; what `hook` returns stands for the whole state_dict."""
        return self._keep("_state_dict_hooks", hook)

    def register_load_state_dict_pre_hook(self, hook) -> RemovableHandle:
        """`hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)` is
        called before the module takes its part of a state_dict."""
        return self._keep("_load_state_dict_pre_hooks", partial(hook, self))

    def _register_load_state_dict_pre_hook(self, hook, with_module: bool = False) -> RemovableHandle:
        return self._keep("_load_state_dict_pre_hooks", partial(hook, self) if with_module else hook)

    def register_load_state_dict_post_hook(self, hook) -> RemovableHandle:
        """`hook(module, incompatible_keys)` is called after the module took its part; it may change the lists."""
        return self._keep("_load_state_dict_post_hooks", hook)

    def _keep(self, name: str, hook) -> RemovableHandle:
        handle = RemovableHandle(self, self._own(name))
        self.__dict__[name][handle.id] = hook
        return handle

    # ---- what the module holds -------------------------------------------------------------------------------

    def _check_name(self, kind: str, name: str, own: str) -> None:
        if own not in self.__dict__:
            raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {type(name).__name__}")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain "."')
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if hasattr(self, name) and name not in self.__dict__[own]:
            raise KeyError(f"attribute '{name}' already exists")

    def register_parameter(self, name: str, param) -> None:
        """Adds a parameter; None keeps the name for later."""
        self._check_name("parameter", name, "_parameters")
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{type(param).__name__}' object to parameter '{name}' "
                "(torch.nn.Parameter or None required)"
            )
        if param is not None and param.grad_fn is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created explicitly."
            )
        registration = _global_hooks.HOOKS["parameter"]
        self._parameters[name] = _global_hooks.registered("parameter", self, name, param) if registration else param

    def register_buffer(self, name: str, tensor, persistent: bool = True) -> None:
        """Adds a tensor that is no parameter; with `persistent` it belongs to the state_dict."""
        self._check_name("buffer", name, "_buffers")
        if tensor is not None and not isinstance(tensor, _C.TensorBase):
            raise TypeError(
                f"cannot assign '{type(tensor).__name__}' object to buffer '{name}' (torch Tensor or None required)"
            )
        if _global_hooks.HOOKS["buffer"]:
            tensor = _global_hooks.registered("buffer", self, name, tensor)
        self._buffers[name] = tensor
        (self._non_persistent_buffers_set.discard if persistent else self._non_persistent_buffers_set.add)(name)

    def add_module(self, name: str, module) -> None:
        """Adds a submodule; None keeps the name for later."""
        self._check_name("module", name, "_modules")
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{type(module).__name__} is not a Module subclass")
        self._modules[name] = _global_hooks.registered("module", self, name, module)

    register_module = add_module

    def __setattr__(self, name: str, value) -> None:
        own = self.__dict__
        if isinstance(value, Parameter):
            self._forget(name, "_buffers", "_modules")
            self.register_parameter(name, value)
        elif type(value) is Tensor and isinstance(value, Buffer):
            self._forget(name, "_parameters", "_modules", "_buffers")
            self.register_buffer(name, value, value.persistent)
        elif isinstance(value, Module):
            self._forget(name, "_parameters", "_buffers")
            if "_modules" not in own:
                raise AttributeError("cannot assign module before Module.__init__() call")
            own["_modules"][name] = _global_hooks.registered("module", self, name, value)
        elif name in own.get("_parameters", ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign '{type(value).__name__}' as parameter '{name}' "
                    "(torch.nn.Parameter or None expected)"
                )
            own["_parameters"][name] = None
        elif name in own.get("_modules", ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign '{type(value).__name__}' as child module '{name}' "
                    "(torch.nn.Module or None expected)"
                )
            own["_modules"][name] = None
        elif name in own.get("_buffers", ()):
            if value is not None and not isinstance(value, _C.TensorBase):
                raise TypeError(
                    f"cannot assign '{type(value).__name__}' as buffer '{name}' (torch.Tensor or None expected)"
                )
            own["_buffers"][name] = _global_hooks.registered("buffer", self, name, value)
        else:
            object.__setattr__(self, name, value)

    def _forget(self, name: str, *dictionaries: str) -> None:
        for where in dictionaries:
            self.__dict__.get(where, {}).pop(name, None)
        self.__dict__.pop(name, None)

    def __getattr__(self, name: str):
        own = self.__dict__
        for where in _DICTIONARIES:
            if where in own and name in own[where]:
                return own[where][name]
        if name in _HOOKS and "_parameters" in own:
            return self._own(name)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __delattr__(self, name: str) -> None:
        for where in _DICTIONARIES:
            if name in self.__dict__.get(where, ()):
                del self.__dict__[where][name]
                self._non_persistent_buffers_set.discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list:
        return sorted({*object.__dir__(self), *self._parameters, *self._buffers, *self._modules})

    # ---- walking ---------------------------------------------------------------------------------------------

    def named_modules(self, memo=None, prefix: str = "", remove_duplicate: bool = True):
        """Yields (dotted name, module) for this module and all below it."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, prefix + "." + name if prefix else name, remove_duplicate)

    def _named_members(self, where: str, prefix: str, recurse: bool, remove_duplicate: bool):
        seen = set()
        walk = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for path, module in walk:
            for name, member in module.__dict__[where].items():
                if member is None or id(member) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(member))
                yield path + "." + name if path else name, member

    def named_parameters(self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True):
        """Yields (dotted name, parameter)."""
        return self._named_members("_parameters", prefix, recurse, remove_duplicate)

    def named_buffers(self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True):
        """Yields (dotted name, buffer)."""
        return self._named_members("_buffers", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True):
        """Yields the parameters."""
        return (parameter for _, parameter in self.named_parameters(recurse=recurse))

    def buffers(self, recurse: bool = True):
        """Yields the buffers."""
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    def modules(self, remove_duplicate: bool = True):
        """Yields this module and all below it; one that is there several times once, unless told otherwise."""
        return (module for _, module in self.named_modules(remove_duplicate=remove_duplicate))

    def named_children(self):
        """Yields (name, module) of the modules directly below."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self):
        """Yields the modules directly below."""
        return (module for _, module in self.named_children())

    def get_submodule(self, target: str):
        """The module under a dotted name."""
        module = self
        for name in target.split(".") if target else ():
            if name not in module._modules:
                raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
            module = module._modules[name]
        return module

    def _member(self, target: str, kind: str, where: str):
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
        if name not in module.__dict__[where]:
            raise AttributeError(f"`{name}` is not {kind}")
        return module.__dict__[where][name]

    def get_parameter(self, target: str):
        """The parameter under a dotted name."""
        return self._member(target, "an nn.Parameter", "_parameters")

    def get_buffer(self, target: str):
        """The buffer under a dotted name."""
        return self._member(target, "a buffer", "_buffers")

    def set_submodule(self, target: str, module, strict: bool = False) -> None:
        """Puts `module` under a dotted name; with `strict` only where there is one."""
        path, _, name = target.rpartition(".")
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{type(parent).__name__} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Module):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def apply(self, fn):
        """Calls `fn` on every module below and on this one; returns self."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    # ---- changing all tensors --------------------------------------------------------------------------------

    def _apply(self, fn, recurse: bool = True):
        """Puts `fn(tensor)` in the place of every tensor here and below. Parameters stay the same objects."""
        for module in self.children() if recurse else ():
            module._apply(fn)
        with no_grad():
            for name, parameter in self._parameters.items():
                if parameter is None:
                    continue
                grad, given = parameter.grad, parameter.detach()
                moved = fn(given)
                if moved.is_meta == parameter.is_meta:
                    if moved is not given:
                        parameter.data = moved
                else:  # elements do not come or go in place
                    parameter = self._parameters[name] = Parameter(moved, parameter.requires_grad)
                if grad is not None:
                    parameter.grad = fn(grad.detach())
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(self, *args, **kwargs):
        """Moves parameters and buffers; of a dtype floating-point and complex ones alone are converted, and of a memory
        format those of four or five dimensions."""
        from ..._tensor import _to_arguments

        memory_format = kwargs.get("memory_format")
        device, dtype, _, _ = _to_arguments(args, dict(kwargs))
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
            )

        def moved(t):
            try:
                kind = dtype if t.is_floating_point() or t.is_complex() else None
                if memory_format is None or t.dim() not in (4, 5):
                    return t.to(device=device, dtype=kind)
                return t.to(device=device, dtype=kind, memory_format=memory_format)
            except NotImplementedError as error:
                if str(error) != "Cannot copy out of meta tensor; no data!":
                    raise
                raise NotImplementedError(
                    f"{error} Please use torch.nn.Module.to_empty() instead of torch.nn.Module.to() when moving module "
                    "from meta to a different device."
                ) from None

        return self._apply(moved)

    def to_empty(self, *, device, recurse: bool = True):
        """Moves parameters and buffers without their values."""
        return self._apply(lambda t: _C.empty_like(t, device=device), recurse)

    def type(self, dst_type):
        """Converts parameters and buffers to a dtype, or a type's name such as "torch.HalfTensor"."""
        return self._apply(lambda t: t.type(dst_type))

    def share_memory(self):
        """Puts parameters and buffers into memory that forked processes see."""
        for tensor in (*self.parameters(), *self.buffers()):
            tensor.share_memory_()
        return self

    def cuda(self, device=None):
        """Raises: there is no CUDA device."""
        return self._apply(lambda t: t.cuda(device))

    def xpu(self, device=None):
        """Raises: there is no xpu device."""
        return self.to("xpu" if device is None else device)

    def ipu(self, device=None):
        """Raises: there is no ipu device."""
        raise RuntimeError("PyTorch is not linked with support for ipu devices")

    def mtia(self, device=None):
        """Raises: there is no mtia device."""
        raise AssertionError("Torch not compiled with MTIA enabled")

    def cpu(self):
        """Moves parameters and buffers to the CPU."""
        return self._apply(lambda t: t.cpu())

    def float(self):
        """Converts floating-point parameters and buffers to float32."""
        return self.to(_C.float32)

    def double(self):
        """Converts floating-point parameters and buffers to float64."""
        return self.to(_C.float64)

    def half(self):
        """Converts floating-point parameters and buffers to float16."""
        return self.to(_C.float16)

    def bfloat16(self):
        """Converts floating-point parameters and buffers to bfloat16."""
        return self.to(_C.bfloat16)

    def train(self, mode: bool = True):
        """Sets `training` here and below; returns self."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self):
        """`self.train(False)`"""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True):
        """Sets requires_grad of all parameters; returns self."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drops the gradients, or fills them with zeros."""
        for parameter in self.parameters():
            if parameter.grad is not None:
                parameter.grad = None if set_to_none else parameter.grad.detach().zero_()

    # ---- state -----------------------------------------------------------------------------------------------

    _version = 1
    dump_patches = call_super_init = False
    T_destination = dict

    def get_extra_state(self):
        """What a state_dict holds beside tensors, under `_extra_state`; a class that defines it defines both."""
        raise RuntimeError("Reached a code path in Module.get_extra_state() that should never be called.")

    def set_extra_state(self, state) -> None:
        """Takes what get_extra_state() gave."""
        raise RuntimeError("Reached a code path in Module.set_extra_state() that should never be called.")

    def _save_to_state_dict(self, destination, prefix: str, keep_vars: bool) -> None:
        """The module's own tensors, without those of the modules below."""
        for name, value in self._parameters.items():
            if value is not None:
                destination[prefix + name] = value if keep_vars else value.detach()
        for name, value in self._buffers.items():
            if value is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = value if keep_vars else value.detach()
        if type(self).get_extra_state is not Module.get_extra_state:
            destination[prefix + _EXTRA_STATE_KEY_SUFFIX] = self.get_extra_state()

    def state_dict(self, *args, destination=None, prefix: str = "", keep_vars: bool = False):
        """Parameters and persistent buffers by dotted name; detached, over the same memory, unless keep_vars."""
        if args:  # positional ones are deprecated
            destination, prefix, keep_vars = (*args, destination, prefix, keep_vars)[: len(args)] + (
                destination, prefix, keep_vars)[len(args) :]  # fmt: skip
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        for hook in list(self.__dict__.get("_state_dict_pre_hooks", {}).values()):
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=prefix + name + ".", keep_vars=keep_vars)
        for hook in list(self.__dict__.get("_state_dict_hooks", {}).values()):
            changed = hook(self, destination, prefix, metadata)
            destination = destination if changed is None else changed
        return destination

    def _load_from_state_dict(self, state_dict, prefix: str, local_metadata, strict, missing_keys, unexpected_keys,
                              error_msgs) -> None:  # fmt: skip
        """Takes the module's own tensors; what is wrong goes into the lists. With
        local_metadata["assign_to_params_buffers"] the tensors themselves, else their numbers."""
        arguments = (state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        for hook in list(self.__dict__.get("_load_state_dict_pre_hooks", {}).values()):
            hook(*arguments)
        assign = local_metadata.get("assign_to_params_buffers", False)
        buffers = [name for name in self._buffers if name not in self._non_persistent_buffers_set]
        names = {name: self._parameters[name] for name in self._parameters}
        names.update((name, self._buffers[name]) for name in buffers)
        for name, own in names.items():
            if own is None:
                continue
            if prefix + name in state_dict:
                self._take(name, own, prefix + name, state_dict[prefix + name], assign, error_msgs)
            elif strict:
                missing_keys.append(prefix + name)
        extra = prefix + _EXTRA_STATE_KEY_SUFFIX
        takes_extra = type(self).set_extra_state is not Module.set_extra_state
        if takes_extra and extra in state_dict:
            self.set_extra_state(state_dict[extra])
        elif takes_extra and strict:
            missing_keys.append(extra)
        if strict:
            for key in state_dict:
                if not key.startswith(prefix) or (key == extra and takes_extra):
                    continue
                name, below, _ = key[len(prefix) :].partition(".")
                if name not in self._modules if below else names.get(name) is None:
                    unexpected_keys.append(key)

    def _take(self, name: str, own, key: str, value, assign: bool, error_msgs: list) -> None:
        """One tensor of a state_dict."""
        if not isinstance(value, _C.TensorBase):
            error_msgs.append(
                f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from '
                f"checkpoint but received {type(value)}"
            )
            return
        if own.dim() == 0 and value.dim() == 1:
            value = value[0]  # checkpoints of very old versions
        if own.shape != value.shape:
            error_msgs.append(
                f"size mismatch for {key}: copying a param with shape {value.shape} from checkpoint, "
                f"the shape in current model is {own.shape}."
            )
            return
        if own.is_meta and not value.is_meta and not assign:
            warnings.warn(
                f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter in the current "
                "model, which is a no-op. (Did you mean to pass `assign=True` to assign items in the state dictionary "
                "to their corresponding key in the module instead of copying them in place?)",
                stacklevel=2,
            )
        try:
            if not assign:
                with no_grad():
                    own.copy_(value)
            elif isinstance(own, Parameter):
                value = value if isinstance(value, Parameter) else Parameter(value, own.requires_grad)
                self._parameters[name] = value
            else:
                self._buffers[name] = value
        except MemoryError:
            raise
        except Exception as error:
            error_msgs.append(
                f'While copying the parameter named "{key}", whose dimensions in the model are {own.size()} and '
                f"whose dimensions in the checkpoint are {value.size()}, an exception occurred : {error.args}."
            )

    def load_state_dict(self, state_dict, strict: bool = True, assign: bool = False):
        """Copies `state_dict` into the parameters and buffers, or with `assign` puts its tensors into their places.
        With `strict` both must have the same names. Gives (missing_keys, unexpected_keys)."""
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        missing, unexpected, problems = [], [], []
        metadata = getattr(state_dict, "_metadata", None)
        self._load(dict(state_dict), "", metadata or {}, assign, (missing, unexpected, problems))
        if strict and unexpected:
            names = ", ".join(f'"{name}"' for name in unexpected)
            problems.insert(0, f"Unexpected key(s) in state_dict: {names}. ")
        if strict and missing:
            problems.insert(0, "Missing key(s) in state_dict: " + ", ".join(f'"{name}"' for name in missing) + ". ")
        if problems:
            lines = "\n\t".join(problems)
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{lines}")
        return _IncompatibleKeys(missing, unexpected)

    def _load(self, state_dict: dict, prefix: str, metadata, assign: bool, lists: tuple) -> None:
        local = dict(metadata.get(prefix[:-1], {}))
        if assign:
            local["assign_to_params_buffers"] = True
        self._load_from_state_dict(state_dict, prefix, local, True, *lists)
        for name, module in self._modules.items():
            if module is not None:
                below = prefix + name + "."
                part = {key: value for key, value in state_dict.items() if key.startswith(below)}
                module._load(part, below, metadata, assign, lists)
        for hook in list(self.__dict__.get("_load_state_dict_post_hooks", {}).values()):
            if hook(self, _IncompatibleKeys(*lists[:2])) is not None:
                raise RuntimeError("Hooks registered with ``register_load_state_dict_post_hook`` are not expected to "
                                   "return new values, if incompatible_keys need to be modified, it should be done "
                                   "inplace.")  # fmt: skip

    def compile(self, *args, **kwargs) -> None:
        """Compiles in place: calls of this module, hooks included, go through torch.compile from here on."""
        from ..._compile import compile

        object.__setattr__(self, "_compiled_call_impl", compile(self._call_impl, *args, **kwargs))
        self._hooks_changed()

    # ---- printing --------------------------------------------------------------------------------------------

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """The part of the printed line that subclasses fill."""
        return ""

    def __repr__(self) -> str:
        lines = [line for line in self.extra_repr().split("\n") if line]
        children = []
        for name, module in self._modules.items():
            children.append(f"({name}): " + repr(module).replace("\n", "\n  "))
        head = self._get_name() + "("
        if not children and len(lines) <= 1:
            return head + "".join(lines) + ")"
        return head + "\n  " + "\n  ".join(lines + children) + "\n)"


_C.define_module(Module)

register_module_backward_hook = _global_hooks.register_module_backward_hook
register_module_buffer_registration_hook = _global_hooks.register_module_buffer_registration_hook
register_module_forward_hook = _global_hooks.register_module_forward_hook
register_module_forward_pre_hook = _global_hooks.register_module_forward_pre_hook
register_module_full_backward_hook = _global_hooks.register_module_full_backward_hook
register_module_full_backward_pre_hook = _global_hooks.register_module_full_backward_pre_hook
register_module_module_registration_hook = _global_hooks.register_module_module_registration_hook
register_module_parameter_registration_hook = _global_hooks.register_module_parameter_registration_hook
# The dicts of hooks of all modules; some packages look into them.
_global_forward_pre_hooks, _global_forward_hooks = _global_hooks.HOOKS["forward_pre"], _global_hooks.HOOKS["forward"]
_global_backward_pre_hooks, _global_backward_hooks = (
    _global_hooks.HOOKS["backward_pre"],
    _global_hooks.HOOKS["backward"],
)
_global_parameter_registration_hooks = _global_hooks.HOOKS["parameter"]
_global_buffer_registration_hooks = _global_hooks.HOOKS["buffer"]
_global_module_registration_hooks = _global_hooks.HOOKS["module"]
