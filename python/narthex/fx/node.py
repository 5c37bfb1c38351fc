"""Node: one line of a Graph; and the arguments that a node may have."""

import builtins
import operator
import types
from collections.abc import Callable
from typing import Any

from .immutable_collections import immutable_dict, immutable_list

_OPS = ("placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root")
_side_effectful: set = set()

# For annotations.
BaseArgumentTypes = str | int | float | bool | complex | None
Target = Callable[..., Any] | str
Argument = Any


def has_side_effect(fn):
    """Keeps calls of `fn` from being taken for dead code; gives it back."""
    _side_effectful.add(fn)
    return fn


def map_aggregate(a, fn):
    """`a` with fn(x) in place of each x that is no tuple, list, dict or slice; these come back immutable."""
    if isinstance(a, tuple):
        made = [map_aggregate(item, fn) for item in a]
        return type(a)(*made) if hasattr(a, "_fields") else tuple(made)
    if isinstance(a, list):
        return immutable_list([map_aggregate(item, fn) for item in a])
    if isinstance(a, dict):
        return immutable_dict((key, map_aggregate(item, fn)) for key, item in a.items())
    if isinstance(a, slice):
        return slice(*(map_aggregate(item, fn) for item in (a.start, a.stop, a.step)))
    return fn(a)


def map_arg(a, fn):
    """`a` with fn(node) in place of each Node."""
    if not callable(fn):
        raise AssertionError("torch.fx.map_arg(a, fn): fn must be a callable")
    return map_aggregate(a, lambda x: fn(x) if isinstance(x, Node) else x)


def _module_of(target) -> str:
    module = getattr(target, "__module__", None) or ""
    head, dot, rest = module.partition(".")
    if module.startswith("torch._ops."):
        return "torch.ops." + module.removeprefix("torch._ops.")
    if head == "narthex":
        return "torch" + dot + rest
    return {"_operator": "operator"}.get(module, module)


def _get_qualified_name(target) -> str:
    """ "operator.add", "torch.relu", "torch.ops.aten.add.Tensor": what generated code calls a function by."""
    name = getattr(target, "__name__", None)
    if name is not None and getattr(builtins, name, None) is target:
        return name
    if isinstance(target, (types.MethodDescriptorType, types.WrapperDescriptorType)):
        return f"{target.__objclass__.__module__}.{target.__objclass__.__name__}.{name}"
    if isinstance(target, types.FunctionType) and name == "<lambda>":
        raise RuntimeError(f"Unable to find the name of {target}: give fx a function that has one")
    module = _module_of(target)
    if module.startswith(("torch._", "torch.nn._")):  # where a function stands here; programs know it as torch's
        import narthex

        inside_nn = module.startswith("torch.nn._")
        if name is not None and vars(narthex.nn.functional if inside_nn else narthex).get(name) is target:
            return f"torch.nn.functional.{name}" if inside_nn else f"torch.{name}"
    return f"{module}.{name}"


def _target_text(target) -> str:
    if isinstance(target, str):
        return target
    name = _get_qualified_name(target)
    return name if "." in name else "builtins." + name


class Node:
    """One step of a graph. op: placeholder, get_attr, call_function, call_method, call_module, output. target: the
    function, or the name of the method, module, attribute or input. args, kwargs: what it is called with, other nodes
    among it. users: the nodes that mention this one, as keys. meta: what is known of it, to be added to."""

    def __init__(self, graph, name: str, op: str, target, args, kwargs, return_type: Any = None) -> None:
        if op not in _OPS:
            raise AssertionError(f"op '{op}' is not in _legal_ops")
        if op == "call_function" and not callable(target):
            raise ValueError(
                f"Node [graph = {graph}, name = '{name}'] target {target} has type {type(target)} "
                "but a Callable is expected"
            )
        if op != "call_function" and not isinstance(target, str):
            raise ValueError(
                f"Node [graph = {graph}, name = '{name}'] target {target} has type {type(target)} but a str is expected"
            )
        self.graph, self.name, self._op, self._target, self.type = graph, name, op, target, return_type
        self.users: dict = {}
        self._input_nodes: dict = {}
        self._meta, self._c = None, None
        self._prev = self._next = self
        self._erased = False
        self._args, self._kwargs = (), {}
        self._take(args, kwargs)

    def _set_op(self, op: str) -> None:
        self._op = op
        self.graph._edited()

    def _set_target(self, target) -> None:
        self._target = target
        self.graph._edited()

    op = property(lambda self: self._op, _set_op)
    target = property(lambda self: self._target, _set_target)

    # ---- neighbours
    next = property(lambda self: self._next, doc="The node that follows.")
    prev = property(lambda self: self._prev, doc="The node before this one.")

    def _unlink(self) -> None:
        self._prev._next, self._next._prev = self._next, self._prev

    def prepend(self, x: "Node") -> None:
        """Moves `x` to the place before this node."""
        if self.graph is not x.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if self is x:
            return
        x._unlink()
        before = self._prev
        before._next, x._prev, x._next, self._prev = x, before, self, x
        self.graph._edited()

    def append(self, x: "Node") -> None:
        """Moves `x` to the place after this node."""
        self._next.prepend(x)

    # ---- arguments
    def _take(self, args, kwargs) -> None:
        for node in self._input_nodes:
            node.users.pop(self, None)
        self._input_nodes = {}

        def use(node):
            self._input_nodes.setdefault(node)
            node.users.setdefault(self)
            return node

        self._args, self._kwargs = map_arg(tuple(args), use), map_arg(dict(kwargs), use)
        self.graph._edited()

    args = property(lambda self: self._args, lambda self, args: self._take(args, self._kwargs))
    kwargs = property(lambda self: self._kwargs, lambda self, kwargs: self._take(self._args, kwargs))

    @property
    def all_input_nodes(self) -> list:
        """The nodes that stand in the arguments, each once."""
        return list(self._input_nodes)

    def update_arg(self, idx: int, arg) -> None:
        """Puts `arg` in place of the positional argument `idx`."""
        args = list(self._args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg) -> None:
        """Puts `arg` before the positional argument `idx`."""
        if not 0 <= idx <= len(self._args):
            raise AssertionError("insert_args index must be between 0 and len(self.args)")
        self.args = (*self._args[:idx], arg, *self._args[idx:])

    def update_kwarg(self, key: str, arg) -> None:
        """Puts `arg` in place of the keyword argument `key`."""
        self.kwargs = {**self._kwargs, key: arg}

    def replace_input_with(self, old_input: "Node", new_input: "Node") -> None:
        """Mentions `new_input` wherever the arguments mention `old_input`."""
        swap = lambda node: new_input if node is old_input else node  # noqa: E731
        self._take(map_arg(self._args, swap), map_arg(self._kwargs, swap))

    def replace_all_uses_with(
        self, replace_with: "Node", delete_user_cb=None, *, propagate_meta=False
    ) -> list:
        """Puts `replace_with` where this node is mentioned, in those users for which delete_user_cb says so; which
        they were."""
        if propagate_meta:
            if len(replace_with.meta) != 0:
                raise AssertionError(
                    "Called node.replace_all_uses_with(replace_with, propagate_meta=True), "
                    "but replace_with already has .meta keys"
                )
            replace_with.meta.update(self.meta)
        changed = [user for user in self.users if delete_user_cb is None or delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    # ---- what is known
    @property
    def meta(self) -> dict:
        """What is known, to be added to: val and example_value (the fake result), source (file, line, function, code),
        stack_trace."""
        if self._meta is None:
            self._meta = {} if self._c is None else dict(self._c.meta)
            if "val" in self._meta:  # by this name backends know it in graphs that were captured
                self._meta["example_value"] = self._meta["val"]
        return self._meta

    @meta.setter
    def meta(self, value: dict) -> None:
        self._meta = value

    @property
    def stack_trace(self):
        """Where the user's program makes this call, as text; None where nobody knows."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace) -> None:
        self.meta["stack_trace"] = trace

    def normalized_arguments(
        self,
        root,
        arg_types: tuple | None = None,
        kwarg_types: dict | None = None,
        normalize_to_only_use_kwargs: bool = False,
    ):
        """(args, kwargs) of a call of a function of torch or of a layer in `root`, by its signature, with defaults; by
        name alone with normalize_to_only_use_kwargs. None where that is not known. Types choose among operators of one
        name."""
        from .operator_schemas import normalize_function, normalize_module

        only = normalize_to_only_use_kwargs
        if self.op == "call_function":
            return normalize_function(self.target, self.args, self.kwargs, arg_types, kwarg_types, only)
        return normalize_module(root, self.target, self.args, self.kwargs, only) if self.op == "call_module" else None

    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether it does more than give a result: inputs, outputs, writes, and what has_side_effect was told of."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            name = getattr(self.target, "__name__", "").partition(".")[0]  # of an overload "add_.Tensor"
            writes = (
                (name.endswith("_") and not name.endswith("__"))
                or "out" in self._kwargs
                or self.target is operator.setitem
            )
            return self.target in _side_effectful or writes
        if self.op == "call_module":
            owner = self.graph.owning_module
            if owner is None:
                raise AssertionError("self.graph.owning_module not set for purity check")
            return getattr(owner.get_submodule(self.target), "_is_impure", False)
        return self.op == "call_method" and self.target.endswith("_") and not self.target.endswith("__")

    # ---- text
    def __repr__(self) -> str:
        return self.name

    def format_node(self, placeholder_names: list | None = None, maybe_return_typename: list | None = None) -> str:
        """`%add : [num_users=1] = call_function[target=torch.add](args = (%x, %y), kwargs = {})`"""
        head = f"%{self.name} : {_type_text(self.type)}[num_users={len(self.users)}]"
        if self.op == "output":
            return f"return {self._args[0]}"
        if self.op == "placeholder":
            given = f"(default={self._args[0]})" if self._args else ""
            return f"{head} = placeholder[target={self.target}]{given}"
        if self.op == "get_attr":
            return f"{head} = get_attr[target={self.target}]"
        args, kwargs = _argument_text(self._args), _argument_text(self._kwargs)
        return f"{head} = {self.op}[target={_target_text(self.target)}](args = {args}, kwargs = {kwargs})"

    def __lt__(self, other) -> bool:
        return self.graph._place(self) < self.graph._place(other)

    def __gt__(self, other) -> bool:
        return other < self

    def __le__(self, other) -> bool:
        return self is other or self < other

    def __ge__(self, other) -> bool:
        return self is other or other < self


def _type_text(kind) -> str:
    if kind is None:
        return ""
    return f"{_type_name(kind)} "


def _type_name(kind) -> str:
    if isinstance(kind, type) and _module_of(kind) not in ("builtins", ""):
        import narthex

        if vars(narthex).get(kind.__name__) is kind:
            return f"torch.{kind.__name__}"
        return f"{_module_of(kind)}.{kind.__name__}"
    return kind.__name__ if isinstance(kind, type) else str(kind)


def _argument_text(value) -> str:
    if isinstance(value, Node):
        return "%" + value.name
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_argument_text, value)) + ("," if len(value) == 1 else "") + ")"
    if isinstance(value, list):
        return "[" + ", ".join(map(_argument_text, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_argument_text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, slice):
        return f"slice({_argument_text(value.start)}, {_argument_text(value.stop)}, {_argument_text(value.step)})"
    return str(value)
