"""symbolic_trace: runs a function on proxies and gives what it did as a graph."""

import builtins
import collections
import functools
import inspect
import math
import types

from .. import _C
from ..nn import Module, Parameter
from .graph import Graph
from .graph_module import GraphModule
from .node import Node
from .proxy import _BASE_TYPES, Proxy, Scope, ScopeContextManager, TraceError, TracerBase

_wrapped: dict = {}  # (id of a module's globals, name): the globals; what fx.wrap was told of
_tracing = False


def is_fx_tracing() -> bool:
    """Whether this is inside symbolic_trace."""
    return _tracing


def wrap(fn_or_name):
    """Calls of the function are recorded as one node and not looked into. At the top level of a module: wrap("name"),
    wrap(function) or as a decorator; what it was given comes back."""
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError("Unsupported type for global function! Must be either a callable or string name")
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame = inspect.currentframe().f_back
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped[id(frame.f_globals), name] = frame.f_globals
    return fn_or_name


def _proxy_in(args, kwargs):
    """The first proxy among the arguments, lists looked into."""
    waiting = [*args, *kwargs.values()]
    for value in waiting:
        if isinstance(value, Proxy):
            return value
        if isinstance(value, (list, tuple)):
            waiting.extend(value)
        elif isinstance(value, dict):
            waiting.extend(value.values())
    return None


def _recorded(function, is_wrapped: bool = True):
    """The function, whose calls with proxies become a node; is_wrapped: its source says so, since whoever traces that
    again would look into it."""

    @functools.wraps(function, updated=())
    def call(*args, **kwargs):
        proxy = _proxy_in(args, kwargs)
        if proxy is None:
            return function(*args, **kwargs)
        made = proxy.tracer.create_proxy("call_function", function, args, kwargs)
        if is_wrapped:
            made.node.meta["is_wrapped"] = True
        return made

    return call


class _Patches:
    """Replacements in dicts and classes, taken back at the end."""

    def __init__(self) -> None:
        self.undo: list = []

    def __enter__(self) -> "_Patches":
        return self

    def __exit__(self, *exc) -> None:
        for back in reversed(self.undo):
            back()

    def item(self, where: dict, name: str, value) -> None:
        if name in where:
            self.undo.append(functools.partial(where.__setitem__, name, where[name]))
        else:
            self.undo.append(functools.partial(where.pop, name))
        where[name] = value

    def attribute(self, where, name: str, value) -> None:
        self.undo.append(functools.partial(setattr, where, name, getattr(where, name)))
        setattr(where, name, value)


def _quicken(cls: type) -> None:
    """Calls of modules go through C again, of classes that inherit them."""
    _C.quicken_module(cls)
    for each in type.__subclasses__(cls):
        _quicken(each)


@functools.cache
def _front_functions() -> list:
    """[(module, name, function)] of the Python functions that PyTorch's protocol would see as one call."""
    import narthex

    found = []
    for module in (narthex.nn.functional, narthex, narthex.linalg, narthex.fft, narthex.special):
        for name, value in list(vars(module).items()):
            if (
                isinstance(value, types.FunctionType)  # those behind shells ask Proxy by themselves
                and not name.startswith("_")
                and getattr(value, "__module__", "").startswith(
                    (
                        "narthex.nn.functional",
                        "narthex._",
                        "narthex.functional",
                        "narthex.linalg",
                        "narthex.fft",
                        "narthex.special",
                    )
                )
            ):
                found.append((module, name, value))
    return found


_KEPT = {
    "compile",
    "manual_seed",
    "save",
    "load",
    "set_default_dtype",
    "no_grad",
    "is_tensor",
    "typename",
    "get_default_dtype",
}


def _assert_is_none(value, msg: str) -> None:
    """AssertionError for anything but None: of traces that were made for None."""
    if isinstance(value, Proxy):
        value.tracer.create_proxy("call_function", _assert_is_none, (value, msg), {})
    else:
        assert value is None, msg


class Tracer(TracerBase):
    """Traces a module or function. Subclasses say by is_leaf_module which modules stay one node. autowrap_modules:
    the functions of these modules, and autowrap_functions, are recorded as one node where the traced function's
    module names them."""

    def __init__(self, autowrap_modules=(math,), autowrap_functions=(), param_shapes_constant: bool = False) -> None:
        self._autowrap_ids = {id(value) for module in autowrap_modules for name, value in vars(module).items()
                              if not name.startswith("_") and callable(value)}  # fmt: skip
        self._autowrap_ids |= {id(function) for function in autowrap_functions}
        self._autowrap_modules, self.param_shapes_constant = list(autowrap_modules), param_shapes_constant
        self.submodule_paths: dict | None = None
        self.root = None
        self.scope = Scope("", None)
        self.module_stack: dict = collections.OrderedDict()
        self.tensor_attrs: dict = {}
        self._qualname_counter: dict = collections.defaultdict(int)

    # ---- what subclasses change
    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Whether a call of the module is one node: the package's own modules but Sequential."""
        from ..nn import Sequential

        own = m.__module__.split(".")[:2] in (["narthex", "nn"], ["torch", "nn"]) or m.__module__.startswith(
            ("narthex.ao.nn", "torch.ao.nn")
        )
        return own and not isinstance(m, Sequential)

    def path_of_module(self, mod: Module) -> str:
        """The module's path below the traced one."""
        if self.submodule_paths:
            path = self.submodule_paths.get(mod)
            if path is None:
                raise NameError("module is not installed as a submodule")
            return path
        for name, module in self.root.named_modules():
            if module is mod:
                return name
        raise NameError("module is not installed as a submodule")

    def call_module(self, m: Module, forward, args, kwargs):
        """A call of a module of the traced one."""
        path = self.path_of_module(m)
        with ScopeContextManager(self.scope, Scope(path, type(m))):
            self.module_stack[path] = (path, type(m))
            try:
                if self.is_leaf_module(m, path):
                    return self.create_proxy("call_module", path, args, kwargs)
                return forward(*args, **kwargs)
            finally:
                self.module_stack.pop(path, None)

    def getattr(self, attr: str, attr_val, parameter_proxy_cache: dict):
        """module.attr while it is traced: parameters as proxies."""
        known = self._parameter_names.get(id(attr_val)) if isinstance(attr_val, Parameter) else None
        if known is None and self.proxy_buffer_attributes and isinstance(attr_val, _C.TensorBase):
            known = next((name for name, buffer in self.root.named_buffers() if buffer is attr_val), None)
        if known is None:
            return attr_val
        if known not in parameter_proxy_cache:
            parameter_proxy_cache[known] = self.create_proxy("get_attr", known, (), {})
        return parameter_proxy_cache[known]

    def get_fresh_qualname(self, prefix: str) -> str:
        """`prefix` with the first number behind it that makes no attribute of the root, from the last one given on."""
        number = self._qualname_counter[prefix] if hasattr(self.root, f"{prefix}0") else 0
        while hasattr(self.root, f"{prefix}{number}"):
            number += 1
        self._qualname_counter[prefix] = number + 1 if hasattr(self.root, f"{prefix}0") else 0
        return f"{prefix}{number}"

    def create_node(self, kind: str, target, args, kwargs, name: str | None = None, type_expr=None) -> Node:
        node = super().create_node(kind, target, args, kwargs, name, type_expr)
        if self.module_stack:
            node.meta["nn_module_stack"] = dict(self.module_stack)
        return node

    def create_arg(self, a):
        """Parameters, buffers and other tensors are attributes of the traced module."""
        if isinstance(a, Parameter):
            name = self._parameter_names.get(id(a))
            if name is None:
                raise NameError("parameter is not a member of this module")
            return self.create_node("get_attr", name, (), {})
        if isinstance(a, _C.TensorBase):
            for name, buffer in self.root.named_buffers():
                if buffer is a:
                    return self.create_node("get_attr", name, (), {})
            name = self.tensor_attrs.get(id(a), (None, None))[0]
            if name is None:
                n = 0
                while hasattr(self.root, f"_tensor_constant{n}"):
                    n += 1
                name = f"_tensor_constant{n}"
                self.tensor_attrs[id(a)] = (name, a)
                setattr(self.root, name, a)
            return self.create_node("get_attr", name, (), {})
        if isinstance(a, Module):
            return self.create_node("get_attr", self.path_of_module(a), (), {})
        return super().create_arg(a)

    # ---- tracing
    def create_args_for_root(self, root_fn, is_module: bool, concrete_args=None):
        """The function and proxies for its arguments; concrete_args: values that take the place of some."""
        code = inspect.unwrap(root_fn).__code__
        concrete = dict(concrete_args or {})
        if isinstance(concrete_args, tuple):
            names = code.co_varnames[is_module : code.co_argcount]
            if len(concrete_args) != len(names):
                raise RuntimeError(
                    f"Tracing expected {len(names)} arguments but got {len(concrete_args)} concrete arguments"
                )
            concrete = dict(zip(names, concrete_args))
        function, args = inspect.unwrap(root_fn), [self.root] if is_module else []
        signature = inspect.signature(root_fn).parameters.values()
        for p in [p for p in signature if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)][is_module:]:
            default = () if p.default is p.empty else (p.default,)
            if p.name not in concrete:
                args.append(
                    self.create_proxy("placeholder", p.name, default, {}, type_expr=self._annotation(root_fn, p.name))
                )
                continue
            if isinstance(concrete[p.name], _BASE_TYPES):
                self._assert_given(p.name, concrete[p.name], default)
            elif not isinstance(concrete[p.name], (list, tuple, dict)):
                kind = type(concrete[p.name]).__name__
                raise NotImplementedError(f"concrete_args: {p.name} of type {kind} is not there yet")
            args.append(concrete[p.name])
        for p in signature:
            if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
                stars = "*" if p.kind is p.VAR_POSITIONAL else "**"
                args.append(self.create_proxy("placeholder", stars + p.name, (), {}))
        return _of_plain_arguments(function), args

    def _assert_given(self, name: str, value, default: tuple) -> None:
        """The argument that `value` stands for stays one, which is checked."""
        from .. import _assert

        given = self.create_proxy("placeholder", f"{name}_1", default, {})
        text = f"{name} has been specialized to have value {value} but got another value"
        if value is None:
            self.create_proxy("call_function", _assert_is_none, (given, text), {})
        else:
            self.create_proxy("call_function", _assert, (given == value, text), {})

    @staticmethod
    def _annotation(root_fn, name: str):
        kind = getattr(root_fn, "__annotations__", {}).get(name)
        return None if isinstance(kind, str) else kind

    def trace(self, root, concrete_args=None) -> Graph:
        """The graph of root(...)."""
        global _tracing
        before, _tracing = _tracing, True
        recorded = _C.set_fx_tracing(True)
        try:
            return self._trace(root, concrete_args)
        finally:
            _tracing = before
            _C.set_fx_tracing(recorded)

    def _trace(self, root, concrete_args) -> Graph:
        is_module = isinstance(root, Module)
        if is_module:
            fn = (
                type(root).forward
                if isinstance(type(root).__dict__.get("forward", type(root).forward), types.FunctionType)
                else root.forward
            )
            self.root = root
            self.root_module_name = root._get_name()
            self.submodule_paths = {module: name for name, module in root.named_modules()}
        else:
            self.root, fn = Module(), root
            self.root_module_name = ""
        self.graph = Graph(tracer_cls=type(self))
        self.tensor_attrs = {}
        self._parameter_names = {id(p): name for name, p in self.root.named_parameters(remove_duplicate=False)}
        fn, args = self.create_args_for_root(fn, is_module and not inspect.ismethod(fn), concrete_args)
        cache: dict = {}
        plain_get, plain_call = Module.__getattr__, Module.__call__

        def module_getattr(module, name):
            value = plain_get(module, name)
            return self.getattr(name, value, cache) if isinstance(value, _C.TensorBase) else value

        def module_call(module, *args, **kwargs):
            self._wrap_names(getattr(module.forward, "__globals__", {}), patches)
            return self.call_module(module, lambda *a, **k: plain_call(module, *a, **k), args, kwargs)

        with _Patches() as patches:
            patches.undo.append(functools.partial(_quicken, Module))
            patches.attribute(Module, "__getattr__", module_getattr)
            patches.attribute(Module, "__call__", module_call)
            for module, name, function in _front_functions():
                if name not in _KEPT:
                    patches.item(vars(module), name, _recorded(function, is_wrapped=False))
            self._wrap_names(getattr(inspect.unwrap(fn), "__globals__", {}), patches)
            for module in self._autowrap_modules:
                self._wrap_names(vars(module), patches)
            for (_, name), where in _wrapped.items():
                original = where.get(name, getattr(builtins, name, None))
                if original is not None and not hasattr(original, "__fx_already_patched"):
                    patches.item(where, name, _recorded(original))
            result = fn(*args)
            self.create_node(
                "output", "output", (self.create_arg(result),), {}, type_expr=self._annotation(fn, "return")
            )
        self.submodule_paths = None
        return self.graph

    def _wrap_names(self, names: dict, patches: _Patches) -> None:
        for name, value in list(names.items()):
            if not name.startswith("_") and callable(value) and id(value) in self._autowrap_ids:
                patches.item(names, name, _recorded(value))


def _of_plain_arguments(function):
    """The function with `*args`, `**kwargs` and keyword-only arguments as plain ones behind the others: then a proxy
    is each."""
    code, bound = function.__code__, getattr(function, "__self__", None)
    stars = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
    if not (code.co_flags & stars or code.co_kwonlyargcount):
        return function
    n = (
        code.co_argcount
        + code.co_kwonlyargcount
        + bool(code.co_flags & inspect.CO_VARARGS)
        + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    )
    plain = code.replace(co_flags=code.co_flags & ~stars, co_argcount=n, co_posonlyargcount=0, co_kwonlyargcount=0)
    made = types.FunctionType(plain, function.__globals__, function.__name__, None, function.__closure__)
    return made if bound is None else types.MethodType(made, bound)


def symbolic_trace(root, concrete_args=None) -> GraphModule:
    """A GraphModule of what `root`, a module or function, does with its arguments, whatever these are; concrete_args:
    values by name that arguments are taken to have; the graph checks that they have them, lists and dicts aside, which
    are no longer arguments."""
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = root.__class__.__name__ if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)


__all__ = ["TraceError", "Tracer", "is_fx_tracing", "symbolic_trace", "wrap"]
