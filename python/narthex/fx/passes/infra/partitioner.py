"""CapabilityBasedPartitioner: the nodes that a backend takes, put together into as few parts as their order allows."""

import operator
from collections.abc import Iterable, Sequence

from ...graph_module import GraphModule
from ...node import Node, _get_qualified_name
from ..operator_support import OperatorSupportBase
from ..tools_common import CALLABLE_NODE_OPS
from ..utils.fuser_utils import fuse_by_partitions, leads_back


class Partition:
    """Some nodes, each with its place counted from the graph's end, None where that is not known."""

    def __init__(
        self, id: int | None = None, nodes: Iterable[Node] | None = None, node_orders: Iterable[int] | None = None
    ) -> None:
        self.id = id
        nodes = list(nodes or ())
        orders = list(node_orders or [None] * len(nodes))
        if len(orders) != len(nodes):
            raise AssertionError("nodes and node_orders must have the same length")
        self.nodes: dict[Node, int | None] = dict(zip(nodes, orders))

    def __repr__(self) -> str:
        return str(self.nodes)

    def add_node(self, node: Node, node_order: int | None = None) -> None:
        """Takes the node in."""
        self.nodes[node] = node_order

    def remove_node(self, node: Node) -> None:
        """Gives the node back."""
        del self.nodes[node]

    def size(self) -> int:
        """How many nodes there are."""
        return len(self.nodes)


class CapabilityBasedPartitioner:
    """propose_partitions() puts the nodes that `operator_support` takes together, also those that pass nothing to each
    other (unless skip_horizontal_fusion). A part of one computing node counts only with allows_single_node_partition,
    or if the node calls one of allowed_single_node_partition_ops. non_compute_ops: functions, by name, that compute
    nothing."""

    def __init__(
        self, graph_module: GraphModule, operator_support: OperatorSupportBase,
        allows_single_node_partition: bool = False, non_compute_ops: Sequence[str] | None = None,
        allowed_single_node_partition_ops: Sequence[str] | None = None, skip_horizontal_fusion: bool = False,
    ) -> None:  # fmt: skip
        self.graph_module, self.operator_support = graph_module, operator_support
        self.allows_single_node_partition = allows_single_node_partition
        self.non_compute_ops = non_compute_ops or []
        self.allowed_single_node_partition_ops = allowed_single_node_partition_ops or []
        self.skip_horizontal_fusion = skip_horizontal_fusion

    def _is_node_supported(self, node: Node) -> bool:
        modules = dict(self.graph_module.named_modules())
        return node.op in CALLABLE_NODE_OPS and bool(self.operator_support.is_node_supported(modules, node))

    def propose_partitions(self) -> list[Partition]:
        """The parts, those further down first."""
        nodes = list(reversed(self.graph_module.graph.nodes))
        order = {node: at for at, node in enumerate(nodes)}
        modules = dict(self.graph_module.named_modules())
        part_of: dict[Node, Partition] = {}
        made = 0
        for node in nodes:
            takes = node.op in CALLABLE_NODE_OPS and self.operator_support.is_node_supported(modules, node)
            if takes:
                part_of[node] = Partition(made, [node], [order[node]])
                made += 1
                self._join([node, *node.users, *([] if self.skip_horizontal_fusion else part_of)], part_of)
        self._give_items(nodes, part_of, order)
        parts = {id(part): part for part in part_of.values() if part.nodes}
        for part in parts.values():
            part.nodes = dict(sorted(part.nodes.items(), key=lambda pair: -pair[1]))
        kept = [part for part in parts.values() if self.allows_single_node_partition or self._counts(part)]
        return sorted(kept, key=lambda part: part.id)

    @staticmethod
    def _join(nodes: list, part_of: dict) -> None:
        """Puts the parts of the nodes together, one after the other, as far as no way leads back."""
        near = {id(part_of[each]): part_of[each] for each in nodes if each in part_of}
        kept = sorted(near.values(), key=lambda part: -part.size())
        while kept:
            into, left = kept.pop(0), []
            for other in kept:
                if leads_back([*into.nodes, *other.nodes], {each: part.nodes for each, part in part_of.items()}):
                    left.append(other)
                    continue
                into.nodes.update(other.nodes)
                part_of.update(dict.fromkeys(other.nodes, into))
            kept = left

    @staticmethod
    def _give_items(nodes: list, part_of: dict, order: dict) -> None:
        """Has what takes an item of a tuple go where the tuple is made."""
        for node in reversed(nodes):
            if node.op != "call_function" or node.target is not operator.getitem:
                continue
            wanted, has = part_of.get(node.args[0]), part_of.get(node)
            if wanted is has:
                continue
            if has is not None:
                has.remove_node(node)
                del part_of[node]
            if wanted is not None:
                wanted.add_node(node, order[node])
                part_of[node] = wanted

    def _computes(self, node: Node) -> bool:
        none = {"torch.ops.aten.view", "_operator.getitem", *self.non_compute_ops}
        return node.op in CALLABLE_NODE_OPS and (node.op != "call_function" or _name(node) not in none)

    def _counts(self, part: Partition) -> bool:
        computing = [node for node in part.nodes if self._computes(node)]
        alone = [node for node in computing if node.op == "call_function"]
        return len(computing) > 1 or any(_name(node) in self.allowed_single_node_partition_ops for node in alone)

    def remove_bookend_non_compute_ops(self, partitions: list[Partition]) -> None:
        """Takes nodes out of the parts that compute nothing and begin or end them."""
        for part in partitions:
            while ends := [node for node in part.nodes if not self._computes(node) and self._is_end(node, part)]:
                for node in ends:
                    part.remove_node(node)

    @staticmethod
    def _is_end(node: Node, part: Partition) -> bool:
        first = not any(given in part.nodes for given in node.all_input_nodes)
        return first or not any(user in part.nodes for user in node.users)

    def fuse_partitions(self, partitions: list[Partition], prefix: str = "fused_") -> GraphModule:
        """The module with a submodule for each part."""
        return fuse_by_partitions(self.graph_module, [part.nodes for part in partitions], prefix)

    def partition_and_fuse(self, prefix: str = "fused_") -> GraphModule:
        """Both steps at once."""
        return self.fuse_partitions(self.propose_partitions(), prefix)


def _name(node: Node) -> str:
    name = _get_qualified_name(node.target)
    return "_" + name if name.startswith("operator.") else name
