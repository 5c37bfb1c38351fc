"""Nested containers as a list of leaves and a description of how they hang together.

`tree_flatten` takes a tree apart and `tree_unflatten` makes it again; both know tuples, lists, dicts, named tuples,
OrderedDict, defaultdict, deque, and each class that `register_pytree_node` was told of. Everything else is a leaf.
Names and results are those of PyTorch's `torch.utils._pytree`.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

Context = Any
PyTree = Any
FlattenFunc = Callable[[Any], tuple]
UnflattenFunc = Callable[[Iterable, Any], Any]
DumpableContext = Any
FlattenFn = Callable[[Any], tuple[list[Any], Any]]
UnflattenFn = Callable[[Iterable[Any], Any], Any]
ToDumpableContextFn = FromDumpableContextFn = Callable[[Any], Any]


# ---- keys: where a leaf stands -------------------------------------------------------------------------------------
class SequenceKey(NamedTuple):
    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, tree):
        return tree[self.idx]


class MappingKey(NamedTuple):
    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, tree):
        return tree[self.key]


class GetAttrKey(NamedTuple):
    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, tree):
        return getattr(tree, self.name)


def keystr(kp) -> str:
    """The path as Python would write it behind the tree's name."""
    return "".join(map(str, kp))


def key_get(obj, kp):
    """What stands at the path `kp` of a tree."""
    for key in kp:
        obj = key.get(obj)
    return obj


# ---- the classes that are nodes ------------------------------------------------------------------------------------
class NodeDef(NamedTuple):
    """How a class is taken apart and made again. `keyed`: children with their keys, or None."""

    type: type
    flatten_fn: FlattenFunc
    unflatten_fn: UnflattenFunc
    flatten_with_keys_fn: FlattenFunc | None = None


class _Serial(NamedTuple):
    name: str | None
    dump: Callable | None
    load: Callable | None


SUPPORTED_NODES: dict[type, NodeDef] = {}
_serial: dict[type, _Serial] = {}
_lock = threading.Lock()


def register_pytree_node(
    cls: type,
    flatten_fn: FlattenFunc,
    unflatten_fn: UnflattenFunc,
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Callable | None = None,
    from_dumpable_context: Callable | None = None,
    flatten_with_keys_fn: FlattenFunc | None = None,
) -> None:
    """Makes instances of exactly `cls` nodes. `flatten_fn(x)` gives (children, context), `unflatten_fn(children,
    context)` an instance; the names and context functions serve `treespec_dumps`."""
    if (to_dumpable_context is None) != (from_dumpable_context is None):
        raise ValueError(
            f"Both to_dumpable_context and from_dumpable_context for {cls} must be None or registered together"
        )
    with _lock:
        if cls in SUPPORTED_NODES:
            raise ValueError(f"{cls} is already registered as pytree node.")
        SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)
        _serial[cls] = _Serial(serialized_type_name, to_dumpable_context, from_dumpable_context)


def _register_pytree_node(cls, flatten_fn, unflatten_fn, *, serialized_type_name=None, **context) -> None:
    """The older name, which lets a class be told of twice."""
    with _lock:
        SUPPORTED_NODES.pop(cls, None)
    register_pytree_node(cls, flatten_fn, unflatten_fn, serialized_type_name=serialized_type_name, **context)


def register_dataclass(cls: type, *, field_names=None, drop_field_names=None, serialized_type_name=None) -> None:
    """Makes a dataclass a node whose children are its fields, those of `drop_field_names` excepted."""
    import dataclasses

    names = list(field_names or (f.name for f in dataclasses.fields(cls) if f.init))
    names = [name for name in names if name not in (drop_field_names or ())]

    def flatten(x):
        kept = [name for name in names if getattr(x, name) is not None]
        missing = [name for name in names if getattr(x, name) is None]
        return [getattr(x, name) for name in kept], [kept, missing]

    def flatten_with_keys(x):
        children, context = flatten(x)
        return [(GetAttrKey(name), child) for name, child in zip(context[0], children, strict=True)], context

    def unflatten(children, context):
        kept, missing = context
        return cls(**dict(zip(kept, children, strict=True)), **dict.fromkeys(missing))

    register_pytree_node(
        cls, flatten, unflatten, serialized_type_name=serialized_type_name, flatten_with_keys_fn=flatten_with_keys
    )


def register_constant(cls: type) -> None:
    """Makes instances of `cls` nodes without children: they are part of the description, compared with ==."""
    if cls.__eq__ is object.__eq__ or cls.__hash__ is None:
        raise TypeError(f"register_constant(cls) expects {cls} to define __eq__ and __hash__")
    register_pytree_node(cls, _no_children, lambda _, context: context, flatten_with_keys_fn=_no_children)


def _no_children(x) -> tuple:
    return [], x


def is_constant_class(cls: type) -> bool:
    return cls in SUPPORTED_NODES and SUPPORTED_NODES[cls].flatten_fn is _no_children


def _sequence(cls: type, name: str, make: Callable = None) -> None:
    make = make or cls
    register_pytree_node(
        cls,
        lambda x: (list(x), None),
        lambda children, _: make(children),
        serialized_type_name=name,
        flatten_with_keys_fn=lambda x: ([(SequenceKey(i), child) for i, child in enumerate(x)], None),
    )


def _mapping(cls: type, name: str, flatten: Callable, unflatten: Callable, **context) -> None:
    register_pytree_node(
        cls,
        flatten,
        unflatten,
        serialized_type_name=name,
        flatten_with_keys_fn=lambda x: ([(MappingKey(k), child) for k, child in x.items()], flatten(x)[1]),
        **context,
    )


def _dict_flatten(x) -> tuple:
    return list(x.values()), list(x)


def _dict_flatten_with_keys(x) -> tuple:
    return [(MappingKey(key), child) for key, child in x.items()], list(x)


def _dict_unflatten(children, keys) -> dict:
    return dict(zip(keys, children, strict=True))


def _named(x) -> tuple:
    return list(x), type(x)


def _unnamed(children, cls):
    return cls(*children)


_sequence(tuple, "builtins.tuple")
_sequence(list, "builtins.list")
_mapping(dict, "builtins.dict", _dict_flatten, _dict_unflatten)
_mapping(
    OrderedDict,
    "collections.OrderedDict",
    _dict_flatten,
    lambda children, keys: OrderedDict(zip(keys, children)),
)
_mapping(
    defaultdict,
    "collections.defaultdict",
    lambda x: (list(x.values()), [x.default_factory, list(x)]),
    lambda children, context: defaultdict(context[0], zip(context[1], children)),
)
register_pytree_node(
    deque,
    lambda x: (list(x), x.maxlen),
    lambda children, length: deque(children, maxlen=length),
    serialized_type_name="collections.deque",
    flatten_with_keys_fn=lambda x: ([(SequenceKey(i), child) for i, child in enumerate(x)], x.maxlen),
)
register_pytree_node(
    namedtuple,
    _named,
    _unnamed,
    serialized_type_name="collections.namedtuple",
    flatten_with_keys_fn=lambda x: (
        [(GetAttrKey(name), child) for name, child in zip(x._fields, x, strict=True)],
        type(x),
    ),
)
BUILTIN_TYPES = frozenset(SUPPORTED_NODES)
# By PyTorch's names, for packages that register them for classes of their own.
for _cls in (tuple, list, OrderedDict, defaultdict, deque, namedtuple):
    _stem, _node = f"_{_cls.__name__.lower()}", SUPPORTED_NODES[_cls]
    globals()[f"{_stem}_flatten"], globals()[f"{_stem}_unflatten"] = _node.flatten_fn, _node.unflatten_fn
    globals()[f"{_stem}_flatten_with_keys"] = SUPPORTED_NODES[_cls].flatten_with_keys_fn
_odict_flatten, _odict_unflatten = SUPPORTED_NODES[OrderedDict].flatten_fn, SUPPORTED_NODES[OrderedDict].unflatten_fn


def is_namedtuple_class(cls) -> bool:
    return isinstance(cls, type) and issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)


def is_namedtuple_instance(obj) -> bool:
    return is_namedtuple_class(type(obj))


def is_namedtuple(obj) -> bool:
    """Whether it is an instance of a named tuple or the class of such."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


_is_namedtuple_instance = is_namedtuple_instance


def is_structseq_instance(obj) -> bool:
    return is_structseq_class(type(obj))


def is_structseq(obj) -> bool:
    """Whether it is what an operator with several results returns, or the class of such."""
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


def is_structseq_class(cls) -> bool:
    """Whether it is a class of what operators with several results return."""
    return isinstance(cls, type) and issubclass(cls, tuple) and cls.__module__ == "torch.return_types"


def _get_node_type(tree) -> Any:
    kind = type(tree)
    return namedtuple if kind not in SUPPORTED_NODES and is_namedtuple_class(kind) else kind


def tree_is_leaf(tree, is_leaf: Callable | None = None) -> bool:
    return (is_leaf is not None and is_leaf(tree)) or _get_node_type(tree) not in SUPPORTED_NODES


_is_leaf = tree_is_leaf


# ---- descriptions --------------------------------------------------------------------------------------------------
class TreeSpec:
    """How a tree hangs together: the class of its root, the context that makes it again, its children's descriptions.
    A leaf's has `type` None."""

    __slots__ = ("_children", "_context", "num_children", "num_leaves", "num_nodes", "type")

    def __init__(self, type, context, children_specs) -> None:
        self.type, self._context, self._children = type, context, list(children_specs)
        self.num_children = len(self._children)
        self.num_nodes = 1 + sum(child.num_nodes for child in self._children)
        self.num_leaves = 1 if type is None else sum(child.num_leaves for child in self._children)

    context = property(lambda self: self._context)
    children_specs = property(lambda self: self._children)

    def children(self) -> list:
        return list(self._children)

    def child(self, index: int) -> TreeSpec:
        return self._children[index]

    def is_leaf(self) -> bool:
        return self.type is None

    def unflatten(self, leaves: Iterable):
        """The tree with these leaves."""
        leaves = list(leaves)
        if len(leaves) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(leaves)} but the spec refers to a pytree "
                f"that holds {self.num_leaves} items ({self})."
            )
        return self._make(iter(leaves))

    def _make(self, leaves):
        if self.type is None:
            return next(leaves)
        children = [child._make(leaves) for child in self._children]
        return SUPPORTED_NODES[self.type].unflatten_fn(children, self._context)

    def flatten_up_to(self, tree) -> list:
        """What stands in `tree` where this description has leaves; ValueError where they hang together otherwise."""
        if self.type is None:
            return [tree]
        kind = _get_node_type(tree)
        if kind is not self.type and not {kind, self.type} <= {dict, OrderedDict, defaultdict}:
            raise ValueError(f"Type mismatch; expected {self.type!r}, but got {type(tree)!r}.")
        children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
        if len(children) != self.num_children:
            raise ValueError(f"Node arity mismatch; expected {self.num_children}, but got {len(children)}.")
        if issubclass(kind, dict):
            expected, got = _keys(self.type, self._context), _keys(kind, context)
            if set(expected) != set(got):
                missing, extra = [k for k in expected if k not in got], [k for k in got if k not in expected]
                raise ValueError(f"Node keys mismatch; missing key(s): {missing}, additional key(s): {extra}.")
            children = [tree[key] for key in expected]
        elif context != self._context:
            raise ValueError(f"Node context mismatch for custom node type {self.type!r}.")
        parts = [spec.flatten_up_to(child) for spec, child in zip(self._children, children, strict=True)]
        return [leaf for part in parts for leaf in part]

    def __eq__(self, other) -> bool:
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return (self.type, self._context, self._children) == (other.type, other._context, other._children)

    def __hash__(self) -> int:
        return hash((self.type, self.num_leaves, self.num_nodes))

    def __repr__(self) -> str:
        if self.type is None:
            return "*"
        return f"TreeSpec({self.type.__name__}, {self._context}, [{', '.join(map(repr, self._children))}])"


PyTreeSpec = TreeSpec


class LeafSpec(TreeSpec):
    """The description of a leaf."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(None, None, ())


_LEAF = LeafSpec()


def treespec_leaf() -> TreeSpec:
    return _LEAF


def _keys(kind: type, context) -> list:
    return context[1] if kind is defaultdict else context


# ---- trees ---------------------------------------------------------------------------------------------------------
def _flatten(tree, leaves: list, is_leaf) -> TreeSpec:
    if tree_is_leaf(tree, is_leaf):
        leaves.append(tree)
        return _LEAF
    kind = _get_node_type(tree)
    children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    return TreeSpec(kind, context, [_flatten(child, leaves, is_leaf) for child in children])


def tree_flatten(tree, is_leaf: Callable | None = None) -> tuple[list, TreeSpec]:
    """(leaves, description). `is_leaf(x)` true makes x a leaf whatever it is."""
    leaves: list = []
    return leaves, _flatten(tree, leaves, is_leaf)


def tree_unflatten(leaves: Iterable, treespec: TreeSpec):
    """The tree of that description with these leaves."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            "tree_unflatten(leaves, treespec): Expected `treespec` to be instance of TreeSpec but got item of type "
            f"{type(treespec)}."
        )
    return treespec.unflatten(leaves)


def tree_iter(tree, is_leaf: Callable | None = None):
    """The leaves, one after the other."""
    if tree_is_leaf(tree, is_leaf):
        yield tree
        return
    for child in SUPPORTED_NODES[_get_node_type(tree)].flatten_fn(tree)[0]:
        yield from tree_iter(child, is_leaf)


def tree_leaves(tree, is_leaf: Callable | None = None) -> list:
    return list(tree_iter(tree, is_leaf))


def tree_structure(tree, is_leaf: Callable | None = None) -> TreeSpec:
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Callable, tree, *rests, is_leaf: Callable | None = None):
    """The tree of `func(leaf, …)`; `rests` are trees whose parts stand where `tree` has leaves."""
    leaves, treespec = tree_flatten(tree, is_leaf)
    return treespec.unflatten(map(func, leaves, *[treespec.flatten_up_to(rest) for rest in rests]))


def tree_map_(func: Callable, tree, *rests, is_leaf: Callable | None = None):
    """Calls `func` for what it does and gives `tree` back."""
    leaves, treespec = tree_flatten(tree, is_leaf)
    deque(map(func, leaves, *[treespec.flatten_up_to(rest) for rest in rests]), maxlen=0)
    return tree


def map_only(types, /):
    """A decorator: the function for leaves of `types` (a class, several, or a condition), all others as they are."""
    condition = types if callable(types) and not isinstance(types, type) else lambda x: isinstance(x, types)

    def wrap(func: Callable) -> Callable:
        return lambda x: func(x) if condition(x) else x

    return wrap


def tree_map_only(type_or_types_or_pred, /, func: Callable, tree, is_leaf: Callable | None = None):
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(type_or_types_or_pred, /, func: Callable, tree, is_leaf: Callable | None = None):
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable, tree, is_leaf: Callable | None = None) -> bool:
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred: Callable, tree, is_leaf: Callable | None = None) -> bool:
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(type_or_types, /, pred: Callable, tree, is_leaf: Callable | None = None) -> bool:
    return all(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, type_or_types))


def tree_any_only(type_or_types, /, pred: Callable, tree, is_leaf: Callable | None = None) -> bool:
    return any(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, type_or_types))


def _broadcast_to_and_flatten(tree, treespec: TreeSpec, is_leaf: Callable | None = None) -> list | None:
    """The leaves of `tree` with one that stands for a whole part repeated for each of its leaves; None where the two
    hang together otherwise."""
    if tree_is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    kind = _get_node_type(tree)
    if treespec.type is not kind:
        return None
    children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    if len(children) != treespec.num_children or context != treespec.context:
        return None
    leaves: list = []
    for child, spec in zip(children, treespec.children_specs, strict=True):
        found = _broadcast_to_and_flatten(child, spec, is_leaf)
        if found is None:
            return None
        leaves += found
    return leaves


# ---- with keys -----------------------------------------------------------------------------------------------------
def _leaves_with_keys(path: tuple, tree, is_leaf):
    if tree_is_leaf(tree, is_leaf):
        yield path, tree
        return
    node = SUPPORTED_NODES[_get_node_type(tree)]
    if node.flatten_with_keys_fn is None:
        raise ValueError(f"Did not find a flatten_with_keys_fn for type: {type(tree)}. Please pass a "
                         "flatten_with_keys_fn argument to register_pytree_node.")  # fmt: skip
    for key, child in node.flatten_with_keys_fn(tree)[0]:
        yield from _leaves_with_keys((*path, key), child, is_leaf)


def tree_flatten_with_path(tree, is_leaf: Callable | None = None) -> tuple[list, TreeSpec]:
    """([(path, leaf), …], description)."""
    return list(_leaves_with_keys((), tree, is_leaf)), tree_structure(tree, is_leaf)


def tree_leaves_with_path(tree, is_leaf: Callable | None = None) -> list:
    return list(_leaves_with_keys((), tree, is_leaf))


def tree_map_with_path(func: Callable, tree, *rests, is_leaf: Callable | None = None):
    """As tree_map, with the leaf's path as first argument."""
    found, treespec = tree_flatten_with_path(tree, is_leaf)
    columns = [[path for path, _ in found], [leaf for _, leaf in found]]
    return treespec.unflatten(map(func, *columns, *[treespec.flatten_up_to(rest) for rest in rests]))


# ---- as text -------------------------------------------------------------------------------------------------------
def _to_plain(spec: TreeSpec) -> dict:
    if spec.type is None:
        return {"type": None, "context": None, "children_spec": []}
    serial = _serial[spec.type]
    if serial.name is None:
        raise NotImplementedError(
            f"No registered serialization name for {spec.type} found. Please register it with a `serialized_type_name`."
        )
    if spec.type is namedtuple:
        context = f"{spec.context.__module__}.{spec.context.__qualname__}"
    elif spec.type is defaultdict:
        factory = spec.context[0]
        context = [factory and f"{factory.__module__}.{factory.__qualname__}", spec.context[1]]
    else:
        context = serial.dump(spec.context) if serial.dump else spec.context
    return {"type": serial.name, "context": json.dumps(context), "children_spec": list(map(_to_plain, spec.children()))}


def _from_plain(plain: dict) -> TreeSpec:
    if plain["type"] is None:
        return _LEAF
    kind = next((cls for cls, serial in _serial.items() if serial.name == plain["type"]), None)
    if kind is None:
        raise ValueError(f"No class is registered under the name {plain['type']}.")
    context = json.loads(plain["context"])
    if kind is namedtuple:
        context = _named_object(context)
    elif kind is defaultdict:
        context = [context[0] and _named_object(context[0]), context[1]]
    elif _serial[kind].load:
        context = _serial[kind].load(context)
    return TreeSpec(kind, context, list(map(_from_plain, plain["children_spec"])))


def serialized_names() -> set:
    """The names by which `treespec_loads` knows classes."""
    return {serial.name for serial in _serial.values() if serial.name is not None}


def _named_object(name: str):
    import pydoc

    found = pydoc.locate(name)
    if found is None:
        raise ValueError(f"No object is named {name}.")
    return found


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """The description as JSON."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"treespec_dumps(treespec): Expected `treespec` to be TreeSpec but got {type(treespec)}.")
    return json.dumps([1 if protocol is None else protocol, _to_plain(treespec)], separators=(",", ":"))


def treespec_loads(serialized: str) -> TreeSpec:
    """The description that `treespec_dumps` wrote."""
    protocol, plain = json.loads(serialized)
    if protocol != 1:
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [1]")
    return _from_plain(plain)


def treespec_pprint(treespec: TreeSpec) -> str:
    return repr(treespec.unflatten(["*"] * treespec.num_leaves)).replace("'*'", "*")


def arg_tree_leaves(*args, **kwargs) -> list:
    """The leaves of positional and keyword arguments."""
    return [leaf for part in (*args, *kwargs.values()) for leaf in tree_iter(part)]
