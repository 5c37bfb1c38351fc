"""split_module: a graph cut into submodules."""

from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node, map_arg


def split_module(
    m: GraphModule, root_m, split_callback, qualname_map: dict | None = None, keep_original_order: bool = False,
    keep_original_node_name: bool = False, keep_original_input_name: bool = True, *, partition_affix: str | None = None,
    tuple_return: bool = False,
) -> GraphModule:  # fmt: skip
    """A GraphModule that calls one submodule, submod_X, for all nodes of which split_callback(node) says X.
    qualname_map gets what names in the submodules were before. tuple_return: also one result is a tuple. The
    parts may not need each other in a circle."""
    part_of, parts = {}, {}
    for node in m.graph.nodes:
        if node.op in ("placeholder", "get_attr", "output"):
            continue
        part_of[node] = name = str(split_callback(node))
        parts.setdefault(name, []).append(node)
    needs = {name: [] for name in parts}
    for node, name in part_of.items():
        for given in node.all_input_nodes:
            other = part_of.get(given)
            if other is not None and other != name and other not in needs[name]:
                needs[name].append(other)
    order: list = []
    while len(order) < len(parts):
        ready = [name for name in parts if name not in order and all(other in order for other in needs[name])]
        if not ready:
            raise RuntimeError("cycle exists between partitions!")
        order.append(ready[0])
    base, at, modules = Graph(), {}, {}
    for node in m.graph.nodes:
        if node.op == "placeholder":
            at[node] = base.create_node("placeholder", node.target, node.args, {}, node.name, node.type)
            at[node].meta = dict(node.meta)
    for name in order:
        _part(m, name, parts[name], base, at, modules, qualname_map, partition_affix, tuple_return)
    result = m.graph.output_node()

    def outer(node: Node) -> Node:
        if node not in at:
            at[node] = base.get_attr(node.target)
        return at[node]

    base.output(map_arg(result.args[0], outer), result.type)
    named = {node.target: _value(m, node.target) for node in base.nodes if node.op == "get_attr"}
    return GraphModule({**modules, **named}, base, type(m).__name__)


def _value(module, path: str):
    for name in path.split("."):
        module = getattr(module, name)
    return module


def _part(
    m, name: str, nodes: list, base: Graph, at: dict, modules: dict, qualname_map, affix, as_tuple: bool
) -> None:
    """One submodule and the call of it."""
    graph, inside, inputs = Graph(), {}, []
    own = set(nodes)

    def local(node: Node) -> Node:
        if node in inside:
            return inside[node]
        if node.op == "get_attr":
            inside[node] = graph.get_attr(node.target)
        else:
            inputs.append(node)
            with graph.inserting_before(first[0]) if first[0] is not None else graph.inserting_after(None):
                inside[node] = graph.placeholder(node.name, node.type)
                inside[node].meta = dict(node.meta)
        return inside[node]

    first: list = [None]
    for given in [
        given for node in nodes for given in node.all_input_nodes if given not in own and given.op != "get_attr"
    ]:
        local(given)
    for node in nodes:
        inside[node] = graph.node_copy(node, local)
    results = [node for node in nodes if any(user not in own for user in node.users)]
    made = tuple(inside[node] for node in results)
    graph.output(made[0] if len(made) == 1 and not as_tuple else made)
    title = f"submod_{affix + '_' if affix else ''}{name}"
    named = {node.target: _value(m, node.target) for node in graph.nodes if node.op in ("call_module", "get_attr")}
    modules[title] = GraphModule(named, graph, title)
    for path in named if qualname_map is not None else ():
        qualname_map[f"{title}.{path}"] = path
    call = base.call_module(title, tuple(at[node] for node in inputs))
    if len(results) == 1 and not as_tuple:
        at[results[0]] = call
        return
    import operator

    for i, node in enumerate(results):
        at[node] = base.call_function(operator.getitem, (call, i))
