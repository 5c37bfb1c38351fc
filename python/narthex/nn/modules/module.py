"""class Module: a tree of parameters, buffers and submodules with a forward function.

Parameters, buffers and submodules live in three dictionaries and are found through __getattr__, as in PyTorch. A call
without hooks is one test and the call of forward: capture goes through this code on every nested module.
"""

from collections import OrderedDict, namedtuple

from ... import _C
from ...autograd.grad_mode import no_grad
from ..parameter import Parameter


class IncompatibleKeys(namedtuple("IncompatibleKeys", ("missing_keys", "unexpected_keys"))):
    """What load_state_dict found no place or no value for."""

    def __repr__(self) -> str:
        return (
            "<All keys matched successfully>" if not (self.missing_keys or self.unexpected_keys) else super().__repr__()
        )


class RemovableHandle:
    """What registering a hook returns: `remove()` takes the hook out again; also a context manager."""

    _next = 0

    def __init__(self, module, hooks: dict) -> None:
        self.module, self.hooks = module, hooks
        self.id = RemovableHandle._next
        RemovableHandle._next += 1

    def remove(self) -> None:
        """Takes the hook out; a second call does nothing."""
        if self.hooks.pop(self.id, None) is not None:
            self.module._hooks_changed()

    def __enter__(self):
        return self

    def __exit__(self, *exception) -> None:
        self.remove()


_DICTIONARIES = ("_parameters", "_buffers", "_modules")


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

    def forward(self, *args, **kwargs):
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
        for hook, with_kwargs in list(self._forward_pre_hooks.values()):
            changed = hook(self, args, kwargs) if with_kwargs else hook(self, args)
            if changed is not None and with_kwargs:
                args, kwargs = changed
            elif changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
        result = self.forward(*args, **kwargs)
        for hook, with_kwargs in list(self._forward_hooks.values()):
            changed = hook(self, args, kwargs, result) if with_kwargs else hook(self, args, result)
            result = result if changed is None else changed
        return result

    def _hooks_changed(self) -> None:
        """_has_hooks: a call is more than one of forward."""
        hooked = self._forward_hooks or self._forward_pre_hooks or "_compiled_call_impl" in self.__dict__
        object.__setattr__(self, "_has_hooks", bool(hooked))

    def __getstate__(self) -> dict:
        """Copies and pickles are not compiled."""
        state = dict(self.__dict__)
        if state.pop("_compiled_call_impl", None) is not None:
            state["_has_hooks"] = bool(self._forward_hooks or self._forward_pre_hooks)
        return state

    def _register(self, hooks: OrderedDict, hook, with_kwargs: bool, prepend: bool) -> RemovableHandle:
        handle = RemovableHandle(self, hooks)
        hooks[handle.id] = (hook, with_kwargs)
        if prepend:
            hooks.move_to_end(handle.id, last=False)
        self._hooks_changed()
        return handle

    def register_forward_pre_hook(self, hook, *, prepend: bool = False, with_kwargs: bool = False) -> RemovableHandle:
        """`hook(module, args[, kwargs])` is called before forward and may return other arguments."""
        return self._register(self._forward_pre_hooks, hook, with_kwargs, prepend)

    def register_forward_hook(
        self, hook, *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """`hook(module, args[, kwargs], result)` is called after forward and may return another result."""
        if always_call:
            raise NotImplementedError("register_forward_hook: always_call is not there yet")
        return self._register(self._forward_hooks, hook, with_kwargs, prepend)

    def register_full_backward_hook(self, hook, prepend: bool = False) -> RemovableHandle:
        """Not there yet: raises NotImplementedError."""
        raise NotImplementedError("register_full_backward_hook: hooks in the backward pass are not there yet")

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
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor, persistent: bool = True) -> None:
        """Adds a tensor that is no parameter; with `persistent` it belongs to the state_dict."""
        self._check_name("buffer", name, "_buffers")
        if tensor is not None and not isinstance(tensor, _C.TensorBase):
            raise TypeError(
                f"cannot assign '{type(tensor).__name__}' object to buffer '{name}' (torch Tensor or None required)"
            )
        self._buffers[name] = tensor
        (self._non_persistent_buffers_set.discard if persistent else self._non_persistent_buffers_set.add)(name)

    def add_module(self, name: str, module) -> None:
        """Adds a submodule; None keeps the name for later."""
        self._check_name("module", name, "_modules")
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{type(module).__name__} is not a Module subclass")
        self._modules[name] = module

    register_module = add_module

    def __setattr__(self, name: str, value) -> None:
        own = self.__dict__
        if isinstance(value, Parameter):
            self._forget(name, "_buffers", "_modules")
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            self._forget(name, "_parameters", "_buffers")
            if "_modules" not in own:
                raise AttributeError("cannot assign module before Module.__init__() call")
            own["_modules"][name] = value
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
            own["_buffers"][name] = value
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

    def modules(self):
        """Yields this module and all below it."""
        return (module for _, module in self.named_modules())

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

    def apply(self, fn):
        """Calls `fn` on every module below and on this one; returns self."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    # ---- changing all tensors --------------------------------------------------------------------------------

    def _apply(self, fn):
        """Puts `fn(tensor)` in the place of every tensor here and below. Parameters stay the same objects."""
        for module in self.children():
            module._apply(fn)
        with no_grad():
            for parameter in self._parameters.values():
                if parameter is None:
                    continue
                grad = parameter.grad
                parameter.data = fn(parameter.detach())
                if grad is not None:
                    parameter.grad = fn(grad.detach())
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(self, *args, **kwargs):
        """Moves parameters and buffers; of a dtype only floating-point ones are converted."""
        from ..._tensor import _to_arguments

        device, dtype, _, _ = _to_arguments(args, dict(kwargs))
        if dtype is not None and not dtype.is_floating_point:
            raise TypeError(f"nn.Module.to only accepts floating point dtypes, but got desired dtype={dtype}")
        return self._apply(lambda t: t.to(device=device, dtype=dtype if t.is_floating_point() else None))

    def cpu(self):
        """`self.to("cpu")`"""
        return self.to("cpu")

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

    def _persistent(self, prefix: str):
        """(dotted name, tensor) of all that a state_dict holds, in PyTorch's order."""
        for name, value in self._parameters.items():
            if value is not None:
                yield prefix + name, value
        for name, value in self._buffers.items():
            if value is not None and name not in self._non_persistent_buffers_set:
                yield prefix + name, value
        for name, module in self._modules.items():
            if module is not None:
                yield from module._persistent(prefix + name + ".")

    def state_dict(self, *, destination=None, prefix: str = "", keep_vars: bool = False):
        """Parameters and persistent buffers by dotted name; detached, over the same memory, unless keep_vars."""
        out = OrderedDict() if destination is None else destination
        for name, value in self._persistent(prefix):
            out[name] = value if keep_vars else value.detach()
        return out

    def load_state_dict(self, state_dict, strict: bool = True, assign: bool = False):
        """Copies `state_dict` into the parameters and buffers. With `strict` both must have the same names."""
        if assign:
            raise NotImplementedError("load_state_dict: assign=True is not there yet")
        own = dict(self._persistent(""))
        missing = [name for name in own if name not in state_dict]
        unexpected = [name for name in state_dict if name not in own]
        problems = []
        if strict and unexpected:
            problems.append("Unexpected key(s) in state_dict: " + ", ".join(f'"{name}"' for name in unexpected) + ".")
        if strict and missing:
            problems.append("Missing key(s) in state_dict: " + ", ".join(f'"{name}"' for name in missing) + ".")
        with no_grad():
            for name, value in state_dict.items():
                if name in own and own[name].shape != value.shape:
                    problems.append(
                        f"size mismatch for {name}: copying a param with shape {value.shape} from checkpoint, "
                        f"the shape in current model is {own[name].shape}."
                    )
                elif name in own:
                    own[name].copy_(value)
        if problems:
            lines = "\n\t".join(problems)
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{lines}")
        return IncompatibleKeys(missing, unexpected)

    def compile(self, *args, **kwargs) -> None:
        """Compiles in place: calls of this module, hooks included, go through torch.compile from here on."""
        from ..._compile import compile

        object.__setattr__(self, "_compiled_call_impl", compile(self._call_impl, *args, **kwargs))
        self._hooks_changed()

    # ---- printing --------------------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """The part of the printed line that subclasses fill."""
        return ""

    def __repr__(self) -> str:
        lines = [line for line in self.extra_repr().split("\n") if line]
        children = []
        for name, module in self._modules.items():
            children.append(f"({name}): " + repr(module).replace("\n", "\n  "))
        head = type(self).__name__ + "("
        if not children and len(lines) <= 1:
            return head + "".join(lines) + ")"
        return head + "\n  " + "\n  ".join(lines + children) + "\n)"


_C.define_module(Module)
