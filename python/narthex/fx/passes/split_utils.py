"""split_by_tags: a graph cut into submodules by the `tag` that its nodes have."""

import operator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node, map_arg
from .utils.common import HolderModule, lift_subgraph_as_module

if TYPE_CHECKING:
    from .splitter_base import Subgraph

__all__ = ["Component", "getattr_recursive", "move_non_tensor_nodes_on_boundary", "setattr_recursive", "split_by_tags"]


def getattr_recursive(obj: object, name: str) -> Any:
    """obj.a.b for "a.b"; None where a module on the way is missing."""
    for part in name.split("."):
        if not hasattr(obj, part):
            return None
        obj = getattr(obj, part)
    return obj


def setattr_recursive(obj: object, attr: str, value: object) -> None:
    """obj.a.b = value for "a.b"."""
    *path, last = attr.split(".")
    for part in path:
        obj = getattr(obj, part)
    setattr(obj, last, value)


@dataclass
class Component:
    """A submodule that is being made: the nodes outside that it reads (orig_inputs) with its inputs for them, those
    inside that are read outside (orig_outputs), and the attributes that it names."""

    graph: Graph
    order: int
    name: str
    input_placeholders: list[Node] = field(default_factory=list)
    orig_inputs: list[Node] = field(default_factory=list)
    orig_outputs: list[Node] = field(default_factory=list)
    getattr_maps: dict[Node, Node] = field(default_factory=dict)
    constructor_args: list[str] = field(default_factory=list)
    gm: GraphModule | None = None


class _Cut:
    """Nodes of a module on their way into components."""

    def __init__(self, gm: GraphModule, tags: list[str]) -> None:
        self.of_tag = {tag: Component(Graph(), order, tag) for order, tag in enumerate(tags)}
        self.component: dict[Node, Component] = {}
        self.inside: dict[Node, Node] = {}
        self.placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
        for node in gm.graph.nodes:
            if node.op not in ("placeholder", "get_attr", "output"):
                self._take(node)
        self.result = gm.graph.output_node()
        for node in self.result.all_input_nodes:
            self._give(node)

    def _give(self, node: Node) -> None:
        owner = self.component.get(node)
        if owner is not None and node not in owner.orig_outputs:
            owner.orig_outputs.append(node)

    def _take(self, node: Node) -> None:
        if not hasattr(node, "tag"):
            raise AssertionError(f"Node does not have tag: {node.format_node()}")
        own = self.of_tag[node.tag]
        above = [self.component[given].order for given in node.all_input_nodes if given in self.component]
        if own.order < max(above, default=0):
            raise AssertionError(
                f"Component {own.name} order must be >= max of its upstream components, order={own.order} and "
                f"max={max(above)}"
            )

        def local(given: Node) -> Node:
            if given.op == "get_attr":
                if given not in own.getattr_maps:
                    own.getattr_maps[given] = own.graph.get_attr(given.target, type_expr=given.type)
                    own.getattr_maps[given].meta = dict(given.meta)
                return own.getattr_maps[given]
            if self.component.get(given) is own:
                return self.inside[given]
            if given not in own.orig_inputs:
                own.orig_inputs.append(given)
                made = own.graph.placeholder(given.name, type_expr=given.type)
                made.meta = dict(given.meta)
                own.input_placeholders.append(made)
                self._give(given)
            return own.input_placeholders[own.orig_inputs.index(given)]

        self.inside[node] = own.graph.node_copy(node, local)
        self.inside[node].tag = node.tag
        self.component[node] = own


def split_by_tags(
    gm: GraphModule, tags: list[str], return_fqn_mapping: bool = False, return_tuple: bool = False,
    GraphModuleCls: type[GraphModule] = GraphModule,
) -> GraphModule | tuple[GraphModule, dict[str, str]]:  # fmt: skip
    """A module that calls a submodule for each tag in this order, each with the nodes whose `node.tag` says so. A node
    may read those of its own and earlier tags. return_tuple: submodules of one result give a tuple, too;
    return_fqn_mapping: also what gm's parameters and modules are called in the new one."""
    cut, root, renamed = _Cut(gm, tags), HolderModule({}), {}
    graph, at = Graph(), {}

    def outer(node: Node) -> Node:
        if node not in at:
            at[node] = graph.get_attr(node.target, type_expr=node.type)
        return at[node]

    for node in cut.placeholders:
        at[node] = graph.node_copy(node)
    for part in cut.of_tag.values():
        if not part.orig_outputs:
            continue
        made = tuple(cut.inside[node] for node in part.orig_outputs)
        part.graph.output(made if return_tuple or len(made) > 1 else made[0])
        _placeholders_first(part)
        part.gm, names = lift_subgraph_as_module(gm, part.graph, comp_name=part.name)
        renamed.update(names)
        root.add_module(part.name, part.gm)
        call = graph.call_module(part.name, tuple(outer(node) for node in part.orig_inputs))
        if isinstance(part.graph.output_node().args[0], Node):
            at[part.orig_outputs[0]] = call
            call.meta = dict(part.orig_outputs[0].meta)
            continue
        for place, node in enumerate(part.orig_outputs):
            at[node] = graph.call_function(operator.getitem, (call, place))
            at[node].meta = dict(node.meta)
    graph.output(map_arg(cut.result.args[0], outer))
    for node in graph.nodes:
        if node.op == "get_attr":
            setattr_recursive(root, node.target, getattr_recursive(gm, node.target))
    whole = GraphModuleCls(root, graph)
    return (whole, renamed) if return_fqn_mapping else whole


def _placeholders_first(part: Component) -> None:
    with part.graph.inserting_before(None):
        for node in reversed(part.input_placeholders):
            next(iter(part.graph.nodes)).prepend(node)


def move_non_tensor_nodes_on_boundary(subgraphs: list["Subgraph"]) -> None:
    """Moves what computes numbers at an accelerated subgraph's beginning to the subgraph before it, so that tensors
    alone cross: nodes that give no tensor and read nothing of their own subgraph."""
    from .tools_common import is_node_output_tensor

    for before, part in zip(subgraphs, subgraphs[1:]):
        if not part.is_acc:
            continue
        for node in list(part.nodes):
            own = set(part.nodes)
            if not is_node_output_tensor(node) and own.isdisjoint(node.all_input_nodes):
                part.nodes.remove(node)
                before.nodes.append(node)
