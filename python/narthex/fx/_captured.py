"""A captured graph, read into nodes: with calls as the program spelled them, F.relu(x), 2 - x, x[0], where the graph
has the operators that they came to (py/notes/spelling.c), or with these."""

import operator
import re

from .. import _C
from .node import Node

# Functions that PyTorch's graphs show as what they call.
_LOOKED_INTO = {
    f"narthex.nn.{name}"
    for name in (
        "functional.pad", "functional.rms_norm", "functional.threshold", "_window.lp_pool3d",
        "_linear_loss.linear_cross_entropy", "_losses.triplet_margin_with_distance_loss",
    )
}  # fmt: skip


def tensor_class() -> type:
    """torch.Tensor, which is there when this is called."""
    import narthex

    return narthex.Tensor


def _nn():
    import narthex

    return narthex.nn


class _Call:
    """A call as it was spelled. parts: the nodes that it came to; places, results: values of the graph among what it
    is given and what it gives, (name of a node, which of its results), for each NotImplemented in args, kwargs and
    shown, in order."""

    def __init__(self, row: tuple, parts: list) -> None:
        self.callable, self.args, self.kwargs, self.places, self.shown, self.results = row
        self.parts = parts
        self.whole = self.shown is NotImplemented  # one tensor, not several

    def can_stand(self, names: dict) -> bool:
        """Whether a node can stand for it, as far as it is known what it is given and what it gives."""
        several = isinstance(self.shown, (list, tuple)) and all(i in (NotImplemented, None) for i in self.shown)
        inside = {part.name for part in self.parts}
        known = all(name in names and name not in inside for name, _ in self.places)
        given = bool(self.results) and all(name in inside for name, _ in self.results)
        return known and given and (self.whole or several) and self._name() not in _LOOKED_INTO

    def _name(self) -> str:
        if isinstance(self.callable, str):
            return self.callable
        return f"{getattr(self.callable, '__module__', None)}.{self.callable.__name__}"  # methods of C have none

    def target(self, object_of) -> tuple:
        """(op, target) of its node."""
        if isinstance(self.callable, str):
            return "call_function", object_of(self.callable)
        name = self.callable.__name__
        if getattr(tensor_class(), name, None) is self.callable:
            return "call_method", name
        from .proxy import operator_of

        return "call_function", operator_of(self.callable)

    def arguments(self, node_of) -> tuple:
        """(args, kwargs) with node_of(value) for each value of the graph."""
        values = iter(self.places)

        def fill(o):
            if o is NotImplemented:
                return node_of(*next(values))
            if isinstance(o, slice):
                return slice(fill(o.start), fill(o.stop), fill(o.step))
            return type(o)(map(fill, o)) if type(o) in (tuple, list) else o

        return tuple(map(fill, self.args)), {name: fill(value) for name, value in self.kwargs.items()}


def _stacks_of(rows: list | None) -> dict | None:
    """{scope: nn_module_stack} of the calls of modules among the rows: (path, class) by the module's number."""
    if rows is None:
        return None
    found: dict = {}
    for scope, row in enumerate(rows, 1):
        if row is not None and len(row) == 4 and isinstance(row[2], int):
            path, kind, address, outer = row
            path = re.sub(r"\._modules\['([^']*)'\]", r".\1", path)
            found[scope] = {**found.get(outer, {}), str(address): (path, kind)}
    return found


def _mentioned(o, kind: type):
    if type(o) is kind:
        yield o.name, o.result or 0
    elif isinstance(o, (list, tuple)):
        for item in o:
            yield from _mentioned(item, kind)


def _calls_of(source) -> list:
    """The calls for which a node can stand: nothing else uses what their parts compute on the way."""
    parts: dict = {}
    for node in source.nodes if source.spellings else ():
        if node.spelling and node.op in ("call_function", "call_method"):
            parts.setdefault(node.spelling, []).append(node)
    if not parts:
        return []
    names = {node.name: node for node in source.nodes}
    calls = [_Call(source.spellings[n - 1], found) for n, found in parts.items() if source.spellings[n - 1]]
    of = {part.name: call for call in calls if call.can_stand(names) for part in call.parts}
    bad = set()
    for node in source.nodes:
        for value in _mentioned([*node.args, *node.kwargs.values()], type(node)):
            call = of.get(value[0])
            if call is not None and of.get(node.name) is not call and value not in call.results:
                bad.add(call)
    return [call for call in dict.fromkeys(of.values()) if call not in bad]


class Reader:
    """Puts the nodes of `source`, a `_C.Graph`, into `graph`, which has none."""

    def __init__(self, graph, source, object_of, as_spelled: bool) -> None:
        self.graph, self.source, self.object_of = graph, source, object_of
        self.behind = {node.name: node for node in source.nodes}
        self.kind = type(source.nodes[-1])
        calls = _calls_of(source) if as_spelled else []
        rows = source.spellings if as_spelled else None
        self.variables = [row for row in rows or () if row is not None and len(row) == 2]
        self.stacks = _stacks_of(rows)
        mentioned = (_mentioned([*n.args, *n.kwargs.values()], self.kind) for n in source.nodes) if calls else ()
        self.used = {place for places in mentioned for place in places}
        self.call_of = {part.name: call for call in calls for part in call.parts}
        self.made: dict = {}  # name -> node
        self.given: dict = {}  # (name, which result) -> node: of calls, and parts of several results
        self.parts: dict = {}  # (name, which result) -> (node, place): of calls that give several
        self.parts_of: dict = {}  # node -> {which of its results: node}
        self.names_of: dict = {}  # node -> names of its results
        kept = {call.results[0][0] for call in calls if self._name_fits(call)}
        names = [name for name in self.behind if name not in self.call_of or name in kept]
        graph._names.used.update((name, None) for name in names)

    def _name_fits(self, call: _Call) -> bool:
        """Whether the name of its result is one for what it calls."""
        text = self.graph._target_to_str(call.target(self.object_of)[1])
        return re.fullmatch(rf"{re.escape(text)}(_\d+)?", call.results[0][0]) is not None

    def read(self) -> None:
        """All of them."""
        for node in self.source.nodes:
            call = self.call_of.get(node.name)
            if call is None:
                self._put_node(node)
            elif node.name == call.parts[-1].name:
                self._put_call(call)
        self._name_variables()

    def _name_variables(self) -> None:
        """Nodes have the name of the first variable that the program gave what they compute."""
        named = set()
        for name, place in self.variables:
            node = self.given.get(place) or (self.made.get(place[0]) if self._is_single(place[0]) else None)
            if node is not None and node.op != "placeholder" and node not in named:
                named.add(node)
                node.name = name if node.name == name else self.graph._names.create_name(name)

    def _is_single(self, name: str) -> bool:
        return not isinstance(self.behind[name].value, tuple) if name in self.behind else False

    def _put(self, name: str, op: str, target, args: tuple, kwargs: dict) -> Node:
        new = Node(self.graph, name, op, target, args, kwargs)
        self.graph._root.prepend(new)
        self.graph._len += 1
        return new

    def _put_node(self, node) -> None:
        target = self.object_of(node.target) if node.op == "call_function" else node.target
        if isinstance(target, str) and node.op == "call_function":
            raise RuntimeError(f"fx: nothing is called {target}")
        kwargs = {key: self._taken(item) for key, item in node.kwargs.items()}
        new = self._put(node.name, node.op, target, self._taken(tuple(node.args)), kwargs)
        if node.op == "placeholder" and isinstance(node.value, _C.TensorBase):
            new.type = tensor_class()
        new._c, self.made[node.name] = node, new
        if isinstance(node.value, tuple):
            self._name_parts(new, len(node.value))
        if self.stacks is not None and node.op in ("call_function", "call_method"):
            self._tell_source(new)

    def _put_call(self, call: _Call) -> None:
        op, target = call.target(self.object_of)
        name = call.results[0][0]
        if not self._name_fits(call):
            name = self.graph._names.create_name(self.graph._target_to_str(target))
        new = self._put(name, op, target, *call.arguments(self._value))
        new._c = self.behind[call.results[0][0]]
        self._tell_source(new)
        values = [self._value_of(result) for result in call.results]
        if call.whole:
            self.given[call.results[0]] = new
            self._tell(new, values[0])
            return
        self._name_parts(new, len(call.shown))
        places = [at for at, item in enumerate(call.shown) if item is NotImplemented]
        self._tell(new, tuple(values[places.index(k)] if k in places else None for k in range(len(call.shown))))
        self.parts.update((result, (new, at)) for result, at in zip(call.results, places))
        for result in call.results:
            if result in self.used:
                self._value(*result)

    def _value_of(self, result: tuple):
        value = self.behind[result[0]].value
        return value[result[1]] if isinstance(value, tuple) else value

    @staticmethod
    def _tell(node: Node, value) -> None:
        node.meta["val"] = node.meta["example_value"] = value

    def _tell_source(self, node: Node) -> None:
        """Which calls of modules it is made in, and what it calls: the function, or the layer of torch.nn."""
        stack = (self.stacks or {}).get(node.meta.pop("scope", 0))
        called = node.target
        if stack:
            node.meta["nn_module_stack"] = dict(stack)
            kind = list(stack.values())[-1][1]
            called = kind if getattr(_nn(), kind.__name__, None) is kind else called
        node.meta["source_fn_stack"] = [(node.name, called)]

    def _taken(self, value):
        if type(value) is self.kind:
            return self._value(value.name, value.result or 0)
        if isinstance(value, (list, tuple)):
            return type(value)(self._taken(item) for item in value)
        return value

    def _value(self, name: str, which: int) -> Node:
        found = self.given.get((name, which))
        if found is None and (name, which) in self.parts:
            found = self.given[name, which] = self._part(*self.parts[name, which])
        if found is None:
            found = self.made[name]
            if isinstance(self.behind[name].value, tuple):
                found = self.given[name, which] = self._part(found, which)
        return found

    def _name_parts(self, node: Node, n: int) -> None:
        """Each of several results has its name, used or not, before those of what follows."""
        self.names_of[node] = [self.graph._names.create_name("getitem") for _ in range(n)]

    def _part(self, node: Node, which: int) -> Node:
        """The node of one of several results, in their order behind the node."""
        there = self.parts_of.setdefault(node, {})
        new = Node(self.graph, self.names_of[node][which], "call_function", operator.getitem, (node, which), {})
        there.get(max((k for k in there if k < which), default=None), node).append(new)
        self.graph._len += 1
        there[which] = new
        of = node.meta.get("val")
        new.meta = dict(node.meta)
        if "source_fn_stack" in new.meta:
            new.meta["source_fn_stack"] = [(new.name, new.target)]
        self._tell(new, of[which] if isinstance(of, tuple) else None)
        return new
