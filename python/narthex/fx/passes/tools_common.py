"""What passes share: names of what nodes call, and nodes brought into an order."""

import operator
from collections import deque
from dataclasses import dataclass

from ... import _C
from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node, _get_qualified_name

Tensors = tuple[_C.TensorBase, ...] | list[_C.TensorBase]
TensorOrTensors = _C.TensorBase | Tensors
NodeList, NodeSet, Names = list[Node], set[Node], list[str]
CALLABLE_NODE_OPS = {"call_module", "call_function", "call_method"}


def get_acc_ops_name(k) -> str:
    """The name by which tables of operators know a function; a name as it is."""
    if isinstance(k, str):
        return k
    name = _get_qualified_name(k)
    return f"_{name}" if getattr(k, "__module__", None) == "_operator" and name.startswith("operator.") else name


def get_node_target(submodules, node: Node) -> str:
    """What a node calls: the class of a module, with PyTorch's path, a function with its module, a method's name."""
    if node.op not in CALLABLE_NODE_OPS:
        raise AssertionError(
            f"Expect op types of call_module, call_method, call_function, but found {node.op}"
        )
    if node.op == "call_method":
        return node.target
    if node.op == "call_function":
        return get_acc_ops_name(node.target)
    module = submodules[node.target]
    kind = getattr(module, "_base_class_origin", type(module))
    path = f"{kind.__module__}.{kind.__qualname__}"
    return "torch." + path.removeprefix("narthex.") if path.startswith("narthex.") else path


def is_node_output_tensor(node: Node) -> bool:
    """Whether shape propagation has found that the node gives a tensor."""
    from ... import Tensor

    kind = node.meta.get("type")
    return isinstance(kind, type) and issubclass(kind, Tensor)


class FxNetAccFusionsFinder:
    """Called: for each of acc_nodes that passes something on to others of them that is no tensor, or reads such, the
    nodes that therefore stay together."""

    def __init__(self, module: GraphModule, acc_nodes: set[Node]) -> None:
        self.module, self.nodes, self.acc_nodes = module, list(module.graph.nodes), acc_nodes

    @dataclass
    class FusionGroup:
        """Nodes that stay together: the place of the first, and what they read of others."""

        top_node_idx: int
        nodes: set[Node]
        inputs: set[Node]
        nodes_need_process: set[Node]

    def __call__(self) -> dict[Node, set[Node]]:
        group_of: dict[Node, set[Node]] = {}
        place = {node: at for at, node in enumerate(self.nodes)}
        for node in self.nodes:
            if node not in self.acc_nodes or is_node_output_tensor(node):
                continue
            members = {node, *(user for user in node.users if user in self.acc_nodes)}
            members = members.union(*(group_of.get(each, ()) for each in members))
            if len(members) > 1:
                first = min(place[each] for each in members)
                inputs = {given for each in members for given in each.all_input_nodes} - members
                group = self.FusionGroup(first, members, inputs, set(members))
                self.recursive_add_node(group, inputs)
                group_of.update(dict.fromkeys(group.nodes, group.nodes))
        return group_of

    def recursive_add_node(self, fusion_group: FusionGroup, inputs, visited: set[Node] | None = None) -> bool:
        """Takes in what lies on a way from the group to one of `inputs`; whether there is such a way."""
        visited, leads = set() if visited is None else visited, False
        for given in inputs:
            if given in fusion_group.nodes:
                leads = True
            elif given in self.acc_nodes and given not in visited:
                visited.add(given)
                if self.recursive_add_node(fusion_group, given.all_input_nodes, visited):
                    fusion_group.nodes.add(given)
                    leads = True
        return leads


def _in_order(nodes, own: set | None = None) -> tuple[list[Node], list[Node]]:
    """The nodes as they stand, each one behind what it reads, and those that never can be, which need each other.
    own: what is outside of it is there already."""
    waiting, left, order = {}, {}, []
    for node in nodes:
        inputs = [given for given in node.all_input_nodes if own is None or given in own]
        left[node] = len(inputs)
        for given in inputs:
            waiting.setdefault(given, []).append(node)
    seen, ready = set(), []

    def place(node: Node) -> None:
        order.append(node)
        for user in waiting.get(node, ()):
            left[user] -= 1
            if not left[user] and user in seen:
                ready.append(user)

    for node in nodes:
        seen.add(node)
        if not left[node]:
            place(node)
        while ready:
            place(ready.pop(0))
    return order, [node for node in nodes if left[node]]


def _assertions() -> list:
    """The functions that legalize_graph calls as soon as what they read is there: sizes, and what is said of them."""
    import narthex

    aten = narthex.ops.aten
    signs = ("add", "mul", "sub", "floordiv", "truediv", "mod", "le", "lt", "ge", "gt", "eq", "ne")
    return [*(getattr(operator, sign) for sign in signs), aten._assert_async.msg, aten.scalar_tensor.default]


def _in_waves(nodes: list) -> tuple[list[Node], list[Node]]:
    """First the nodes that read nothing, then those that read them alone, and so on; what is left over."""
    left = {node: len(node.all_input_nodes) for node in nodes}
    ready, order, at_once = deque(node for node in nodes if not left[node]), [], _assertions()
    while ready:
        order.append(ready.popleft())
        for user in order[-1].users:
            left[user] -= 1
            if not left[user]:
                first = user.op == "call_function" and user.target in at_once
                (ready.appendleft if first else ready.append)(user)
    return order, [node for node in nodes if left[node]]


def _sorted(gm: GraphModule, found: tuple, error: type) -> GraphModule:
    order, circle = found
    if circle:
        raise error(f"Input graph has cycles, unable to add {circle}")
    graph, made = Graph(tracer_cls=getattr(gm.graph, "_tracer_cls", None)), {}
    for node in order:
        made[node] = graph.node_copy(node, lambda given: made[given])
    graph._codegen = gm.graph._codegen
    gm.graph = graph
    return gm


def legalize_graph(gm: GraphModule) -> GraphModule:
    """The module with each node behind what it reads, nearest to the inputs first; RuntimeError where they need each
    other in a circle."""
    return _sorted(gm, _in_waves(list(gm.graph.nodes)), RuntimeError)


def stable_topological_sort(gm: GraphModule) -> GraphModule:
    """The same; nodes that may stay stay where they are. AssertionError where there is no such order."""
    return _sorted(gm, _in_order(list(gm.graph.nodes)), AssertionError)
