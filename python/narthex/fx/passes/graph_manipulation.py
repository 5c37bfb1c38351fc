"""Targets replaced, and sizes in bytes of what nodes hold."""

from typing import NamedTuple

from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node, map_aggregate, map_arg
from .shape_prop import ShapeProp, TensorMetadata

__all__ = ["get_size_of_all_nodes", "get_size_of_node", "get_tensor_meta", "replace_target_nodes_with", "size_bytes"]


def replace_target_nodes_with(fx_module: GraphModule, old_op: str, old_target, new_op: str, new_target) -> None:
    """Calls new_target wherever the graph calls old_target, with the same arguments."""
    graph, at = Graph(), {}
    for node in fx_module.graph.nodes:
        if node.op == old_op and node.target == old_target:
            args, kwargs = map_arg(node.args, lambda n: at[n]), map_arg(node.kwargs, lambda n: at[n])
            at[node] = graph.create_node(new_op, new_target, args, dict(kwargs), node.name)
        else:
            at[node] = graph.node_copy(node, lambda n: at[n])
    fx_module.graph = graph


class size_bytes(NamedTuple):
    """Of a node: what it gives, and that together with the parameters of the module that it calls."""

    output_size: int
    total_size: int


def get_tensor_meta(node: Node) -> TensorMetadata:
    """What ShapeProp has noted of a node."""
    meta = node.meta.get("tensor_meta")
    if not meta:
        raise RuntimeError(
            f"Node {node} has no tensor metadata associated with it! Check that shape propagation has run."
        )
    return meta


def get_size_of_all_nodes(fx_module: GraphModule, args: list | None = None) -> None:
    """Sets `size_bytes` of each node; runs ShapeProp first where there are inputs."""
    if args is not None:
        ShapeProp(fx_module).propagate(*args)
    for node in fx_module.graph.nodes:
        if node.op == "output":
            break
        node.size_bytes = get_size_of_node(fx_module, node)


def get_size_of_node(fx_module: GraphModule, node: Node) -> size_bytes:
    """The bytes of one node."""
    import narthex

    held = 0
    if node.op == "call_module":
        module = dict(fx_module.named_modules())[node.target]
        held = sum(value.numel() * value.element_size() for value in (*module.parameters(), *module.buffers()))
    given: list = []

    def count(meta):
        if isinstance(meta, TensorMetadata):
            given.append(meta.shape.numel() * narthex.empty(0, dtype=meta.dtype).element_size())
        return meta

    meta = get_tensor_meta(node)
    if isinstance(meta, TensorMetadata):
        count(meta)
    else:
        for each in meta:
            map_aggregate(each, count) if not isinstance(each, TensorMetadata) else count(each)
    return size_bytes(sum(given), held + sum(given))
