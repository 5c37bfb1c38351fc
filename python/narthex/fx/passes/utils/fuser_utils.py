"""Parts of a graph made submodules, in one another's order."""

import operator
from collections.abc import Iterable

from ...graph import Graph
from ...graph_module import GraphModule
from ...node import Node
from ..tools_common import _in_order
from .common import lift_subgraph_as_module


def topo_sort(nodes: list[Node]) -> list[Node]:
    """The nodes with each one behind what it reads of the others."""
    own = set(nodes)
    order, circle = _in_order(nodes, own)
    if circle:
        raise AssertionError("topological sorted nodes doesn't have same length as input nodes")
    return order


def leads_back(part: Iterable[Node], group_of: dict | None = None) -> bool:
    """Whether a way leads out of the part and into it again. group_of: node -> nodes that are reached together."""
    own, group_of = set(part), group_of or {}
    ahead, seen = [user for node in own for user in node.users if user not in own], set()
    while ahead:
        node = ahead.pop()
        if node in own:
            return True
        if node not in seen:
            together = group_of.get(node, (node,))
            seen.update(together)
            ahead += [user for each in together for user in each.users]
    return False


def validate_partition(partition: list[Node]) -> bool:
    """Whether the nodes may become one call: nothing outside lies between two of them."""
    return not leads_back(partition)


def fuse_as_graphmodule(
    gm: GraphModule, nodes: list[Node], module_name: str,
    partition_lookup_table: dict[Node, int | None] | None = None, *, always_return_tuple: bool = False,
) -> tuple[GraphModule, tuple[Node, ...], tuple[Node, ...]]:  # fmt: skip
    """A module of the nodes, which stand in order, the nodes outside that it reads, and those inside that are read
    outside."""
    own = set(nodes)
    for node in nodes:
        if node.graph.owning_module is not gm:
            raise AssertionError(f"{node} doesn't belong to passed in graph module {gm._get_name()}")
        if node._erased:
            raise AssertionError(f"{node} has been removed from owning graph")
    if not validate_partition(nodes):
        raise AssertionError("Invalid partition, found dependency cycles")
    graph, at, inputs = Graph(), {}, {}

    def inside(node: Node) -> Node:
        if node not in at:
            if node.op == "get_attr":
                at[node] = graph.node_copy(node)
            else:
                with graph.inserting_after(last[0]):
                    inputs[node] = last[0] = at[node] = graph.placeholder(node.name, type_expr=node.type)
                at[node].meta = dict(node.meta)
        return at[node]

    last: list = [graph._root]
    for node in nodes:
        for given in node.all_input_nodes:
            inside(given)
        at[node] = graph.node_copy(node, inside)
    results = {node: at[node] for node in nodes if any(user not in own for user in node.users)}
    made = tuple(results.values())
    graph.output(made[0] if len(made) == 1 and not always_return_tuple else made)
    graph.lint()
    module, _ = lift_subgraph_as_module(gm, graph, comp_name="", class_name=module_name)
    return module, tuple(inputs), tuple(results)


def insert_subgm(
    gm: GraphModule, sub_gm: GraphModule, orig_inputs: tuple[Node, ...], orig_outputs: tuple[Node, ...],
    insertion_point: Node | None = None,
) -> GraphModule:  # fmt: skip
    """Calls `sub_gm` with orig_inputs, behind `insertion_point` or the last of orig_outputs, whose users read its
    results."""
    name, place = type(sub_gm).__name__, gm.graph._place
    gm.add_submodule(name, sub_gm)
    last = insertion_point or max(orig_outputs, key=place, default=None) or next(reversed(gm.graph.nodes)).prev
    with gm.graph.inserting_after(last):
        call = gm.graph.call_module(name, args=orig_inputs)
        if len(orig_outputs) == 1 and not isinstance(sub_gm.graph.output_node().args[0], tuple):
            orig_outputs[0].replace_all_uses_with(call, propagate_meta=True)
            return gm
        for at, node in enumerate(orig_outputs):
            part = gm.graph.call_function(operator.getitem, (call, at))
            node.replace_all_uses_with(part, propagate_meta=True)
    call.meta["val"] = tuple(node.meta.get("val") for node in orig_outputs)
    return gm


def erase_nodes(gm: GraphModule, nodes: list[Node]) -> None:
    """Takes the nodes, which stand in order, out of the graph."""
    for node in reversed(nodes):
        gm.graph.erase_node(node)


def fuse_by_partitions(
    gm: GraphModule, partitions: list[dict[Node, int | None]], prefix: str = "fused_", always_return_tuple: bool = False
) -> GraphModule:
    """Each partition as a submodule of `gm`, fused_0 and on."""
    for number, partition in enumerate(partitions):
        nodes = topo_sort(list(partition))
        module, inputs, outputs = fuse_as_graphmodule(
            gm, nodes, f"{prefix}{number}", partition, always_return_tuple=always_return_tuple
        )
        insert_subgm(gm, module, inputs, outputs, nodes[-1])
        erase_nodes(gm, nodes)
    order, circle = _in_order(list(gm.graph.nodes))
    if circle:
        raise AssertionError(f"Invalid partition, found dependency cycles among {circle}")
    for node in order:
        gm.graph._root.prepend(node)
    gm.graph.lint()
    gm.recompile()
    return gm
