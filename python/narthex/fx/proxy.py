"""Proxy: what stands for a value while a function is traced, and TracerBase, which records what is done with it."""

import enum
import inspect
import operator

from .. import _C
from .graph import _SIGNS, Graph
from .node import Node, map_aggregate

_BASE_TYPES = (str, int, float, bool, complex, type(None), type(...), _C.dtype, _C.device)


class TraceError(ValueError):
    """The program does with a traced value what a graph cannot hold."""


class ScopeContextManager:
    """The module that is being called, while it is."""

    def __init__(self, scope, current_scope) -> None:
        self.scope, self.before = scope, scope.__dict__.copy()
        scope.__dict__.update(current_scope.__dict__)

    def __enter__(self):
        return self.scope

    def __exit__(self, *exc) -> None:
        self.scope.__dict__.update(self.before)


class Scope:
    """Path and type of a module."""

    def __init__(self, module_path: str, module_type) -> None:
        self.module_path, self.module_type = module_path, module_type


class TracerBase:
    """Makes nodes of calls."""

    graph: Graph
    record_stack_traces = False
    trace_asserts = False
    proxy_buffer_attributes = False

    def create_node(self, kind: str, target, args, kwargs, name=None, type_expr=None) -> Node:
        """A node; subclasses may look at it."""
        return self.graph.create_node(kind, target, args, kwargs, name, type_expr)

    def proxy(self, node: Node) -> "Proxy":
        """What the program gets to hold for the node's value."""
        return Proxy(node, self)

    def create_proxy(
        self, kind: str, target, args, kwargs, name=None, type_expr=None, proxy_factory_fn=None
    ) -> "Proxy":
        """A node of a call with the program's values, and the proxy for it."""
        args, kwargs = self.create_arg(args), self.create_arg(kwargs)
        if not isinstance(args, tuple) or not isinstance(kwargs, dict):
            raise AssertionError("Expected args to be a tuple and kwargs a dict")
        node = self.create_node(kind, target, args, kwargs, name, type_expr)
        proxy = proxy_factory_fn(node) if proxy_factory_fn else self.proxy(node)
        if self.record_stack_traces and not node.stack_trace:
            node.stack_trace = _place_of_the_program()
        return proxy

    def create_arg(self, a):
        """`a` as a node's argument: proxies as their nodes."""
        if isinstance(a, Proxy):
            return a.node
        if isinstance(a, tuple):
            items = [self.create_arg(item) for item in a]
            return type(a)(*items) if hasattr(a, "_fields") else tuple(items)
        if isinstance(a, list):
            return [self.create_arg(item) for item in a]
        if isinstance(a, dict):
            for key in a:
                self._check_key(self.create_arg(key))
            return {self.create_arg(key): self.create_arg(item) for key, item in a.items()}
        if isinstance(a, slice):
            return slice(*(self.create_arg(item) for item in (a.start, a.stop, a.step)))
        if isinstance(a, range):
            return range(*(self.create_arg(item) for item in (a.start, a.stop, a.step)))
        if isinstance(a, (*_BASE_TYPES, enum.Enum, Node)) or a is ...:
            return a
        if isinstance(a, type) or (callable(a) and hasattr(a, "__name__")):
            return a
        raise NotImplementedError(f"argument of type: {type(a)}")

    @staticmethod
    def _check_key(key) -> None:
        def refuse(node):
            raise RuntimeError(f"Keys for dictionaries used as an argument cannot contain a Node. Got key: {key}")

        map_aggregate(key, lambda x: refuse(x) if isinstance(x, Node) else x)

    def to_bool(self, obj: "Proxy") -> bool:
        """Asked whether a proxy is true."""
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj: "Proxy"):
        """Asked to iterate over a proxy: an unpacking has as many items as it has names."""
        frame = inspect.currentframe().f_back.f_back
        n = _unpacked(frame)
        if n is not None:
            return (obj[i] for i in range(n))
        raise TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a *args or "
            "**kwargs function argument. See the torch.fx docs on pytorch.org for a more detailed explanation of what "
            "types of control flow can be traced, and check out the Proxy docstring for help troubleshooting Proxy "
            "iteration errors"
        )

    def keys(self, obj: "Proxy"):
        """Asked for `**proxy`."""
        return Attribute(obj, "keys")()


def _unpacked(frame) -> int | None:
    """How many names the statement at work in `frame` unpacks to; None: it does something else."""
    import dis

    for instruction in dis.get_instructions(frame.f_code) if frame else ():
        if instruction.offset == frame.f_lasti:
            return instruction.argval if instruction.opname == "UNPACK_SEQUENCE" else None
    return None


def _place_of_the_program() -> str:
    frame = inspect.currentframe()
    while frame and "/narthex/" in frame.f_code.co_filename:
        frame = frame.f_back
    return f'File "{frame.f_code.co_filename}", line {frame.f_lineno}, in {frame.f_code.co_name}' if frame else ""


class GraphAppendingTracer(TracerBase):
    """Records at the graph's insertion point."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph


class Proxy:
    """Stands for the value of `node`; what is done with it becomes nodes."""

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, name: str) -> "Attribute":
        if (
            name in ("__torch_dispatch__", "__index__", "__array__", "__length_hint__", "__dlpack__")
            or name == "tracer"
        ):
            raise AttributeError(name)
        return Attribute(self, name)

    def __getstate__(self) -> dict:
        return self.__dict__

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)

    def __deepcopy__(self, memo) -> "Proxy":
        return Proxy(self.node, self.tracer)

    def __call__(self, *args, **kwargs) -> "Proxy":
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self):
        return self.tracer.iter(self)

    def __abs__(self) -> "Proxy":
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __bool__(self) -> bool:
        return self.tracer.to_bool(self)

    def __len__(self):
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, please call "
            "torch.fx.wrap('len') at module scope"
        )

    def __contains__(self, item):
        raise RuntimeError("'in' is not supported in symbolic tracing: a graph cannot hold what it answers")

    def keys(self):
        return self.tracer.keys(self)

    __hash__ = object.__hash__

    @classmethod
    def __torch_function__(cls, orig_method, types, args=None, kwargs=None):
        """A torch function that was called with a proxy: PyTorch's protocol."""
        args, kwargs, found = args or (), kwargs or {}, []
        map_aggregate((args, kwargs), lambda x: found.append(x.tracer) if isinstance(x, Proxy) else None)
        if not found:
            raise AssertionError("Expected at least one tracer")
        if len(set(map(id, found))) > 1:
            raise RuntimeError(
                f"Found multiple different tracers {found} while trying to trace operations {orig_method}"
            )
        from ..functional import einsum
        from ..overrides import is_tensor_method_or_property

        if orig_method is einsum and len(args) == 2 and isinstance(args[1], (list, tuple)):
            args = (args[0], *args[1])  # a node has the operands one by one
        if is_tensor_method_or_property(orig_method):
            return found[0].create_proxy("call_method", orig_method.__name__, args, kwargs)
        return found[0].create_proxy("call_function", operator_of(orig_method), args, kwargs)


def operator_of(function):
    """torch.ops.aten.add.Tensor for the function behind it; others as they are."""
    if getattr(function, "__module__", None) != "torch.ops":
        return function
    import narthex

    namespace, _, name = function.__name__.partition("::")
    packet, _, overload = name.partition(".")
    return getattr(getattr(getattr(narthex.ops, namespace), packet), overload or "default")


class Attribute(Proxy):
    """proxy.name: a call of it is a call of the method; else it is getattr."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root, self.attr, self.tracer, self._node = root, attr, root.tracer, None

    @property
    def node(self) -> Node:
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args, **kwargs) -> Proxy:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


def _define(name: str, turned: bool) -> None:
    target = getattr(operator, name)

    def method(self, *others):
        args = (*others, self) if turned else (self, *others)
        return self.tracer.create_proxy("call_function", target, args, {})

    plain = name.rstrip("_")
    method.__name__ = f"__r{plain}__" if turned else f"__{plain}__"
    setattr(Proxy, method.__name__, method)


for _name in (*_SIGNS, "pos", "neg", "invert", "getitem", "setitem"):
    _define(_name, False)
for _name in _SIGNS:
    if _name not in ("eq", "ne", "lt", "gt", "le", "ge"):
        _define(_name, True)
