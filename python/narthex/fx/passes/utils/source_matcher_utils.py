"""get_source_partitions: which nodes of a graph came from which layer or function of the program."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ...graph import Graph
from ...node import Node

__all__ = ["SourcePartition", "check_subgraphs_connected", "get_source_partitions"]


@dataclass
class SourcePartition:
    """The nodes of one call of `source`, what they read of others, what others read of them, and the attributes that
    they name."""

    nodes: list[Node]
    source: Any
    input_nodes: list[Node] = field(default_factory=list)
    output_nodes: list[Node] = field(default_factory=list)
    params: list[Node] = field(default_factory=list)


def get_source_partitions(
    graph: Graph, wanted_sources: list[Any], filter_fn: Callable[[Node], bool] | None = None
) -> dict[Any, list[SourcePartition]]:
    """For each of the sources that the graph has, its calls in order: of a class of layers, by nn_module_stack, of a
    function, the nodes that call it, but for those that a layer calls. filter_fn: of those the ones all of whose nodes
    it lets through."""
    calls: dict[tuple, list[Node]] = {}
    for node in graph.nodes:
        for source in wanted_sources:
            key = _call_of(node, source)
            if key is not None:
                calls.setdefault((source, key), []).append(node)
    found: dict[Any, list[SourcePartition]] = {}
    for (source, _), nodes in calls.items():
        if filter_fn is None or all(map(filter_fn, nodes)):
            found.setdefault(source, []).append(_partition(nodes, source))
    return found


def _call_of(node: Node, source):
    """What is the same for all nodes of one call of `source`; None for other nodes."""
    if isinstance(source, type):
        stack = node.meta.get("nn_module_stack") or {}
        path, kind = next(reversed(stack.values())) if stack else ("", None)
        name = f"{source.__module__}.{source.__qualname__}"
        own = {source, name, "torch." + name.removeprefix("narthex.")}
        return path if node.op != "placeholder" and kind in own else None
    told = node.meta.get("source_fn_stack")  # a layer's own call is the layer's
    called = told[-1][1] if told else node.target if node.op == "call_function" else None
    return node if called is source else None


def _partition(nodes: list[Node], source) -> SourcePartition:
    own = set(nodes)
    given = dict.fromkeys(each for node in nodes for each in node.all_input_nodes if each not in own)
    params = [node for node in (*given, *nodes) if node.op == "get_attr"]
    inputs = [node for node in given if node.op != "get_attr"]
    return SourcePartition(nodes, source, inputs, [n for n in nodes if not own.issuperset(n.users)], params)


def check_subgraphs_connected(subgraph1: SourcePartition, subgraph2: SourcePartition) -> bool:
    """Whether the second reads what the first gives."""
    given = set(subgraph1.nodes)
    return any(each in given for node in subgraph2.nodes for each in node.all_input_nodes)
