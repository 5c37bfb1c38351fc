"""What passes share: names of what nodes call, and nodes brought into an order."""

from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node, _get_qualified_name


def get_acc_ops_name(k) -> str:
    """The name by which tables of operators know a function; a name as it is."""
    if isinstance(k, str):
        return k
    name = _get_qualified_name(k)
    return f"_{name}" if getattr(k, "__module__", None) == "_operator" and name.startswith("operator.") else name


def get_node_target(submodules, node: Node) -> str:
    """What a node calls: the class of a module, with PyTorch's path, a function with its module, a method's name."""
    if node.op not in ("call_module", "call_method", "call_function"):
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


def _in_order(nodes) -> tuple[list[Node], list[Node]]:
    """The nodes as they stand, each one behind what it reads, and those that never can be, which need each other."""
    waiting, left, order = {}, {}, []
    for node in nodes:
        left[node] = len(node.all_input_nodes)
        for given in node.all_input_nodes:
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


def _sorted(gm: GraphModule, error: type) -> GraphModule:
    order, circle = _in_order(list(gm.graph.nodes))
    if circle:
        raise error(f"Input graph has cycles, unable to add {circle}")
    graph, made = Graph(tracer_cls=getattr(gm.graph, "_tracer_cls", None)), {}
    for node in order:
        made[node] = graph.node_copy(node, lambda given: made[given])
    graph._codegen = gm.graph._codegen
    gm.graph = graph
    return gm


def legalize_graph(gm: GraphModule) -> GraphModule:
    """The module with each node behind what it reads; RuntimeError where they need each other in a circle."""
    return _sorted(gm, RuntimeError)


def stable_topological_sort(gm: GraphModule) -> GraphModule:
    """The same; nodes that may stay stay where they are. AssertionError where there is no such order."""
    return _sorted(gm, AssertionError)
