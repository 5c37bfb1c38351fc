"""SubgraphMatcher: where a graph has the shape of a small one."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from ..._of_schema import in_order_of_schema
from ...graph import Graph
from ...node import Node


@dataclass
class InternalMatch:
    """anchors: the pattern's nodes that the search began at; nodes_map: the pattern's nodes to those of the graph, an
    input of the pattern also to a number; placeholder_nodes, returning_nodes: what stands for the pattern's inputs and
    results; name_node_map: nodes of the graph by names that the pattern gave them."""

    anchors: list[Node]
    nodes_map: dict[Node, Node] = field(default_factory=dict)
    placeholder_nodes: list[Node] = field(default_factory=list)
    returning_nodes: list[Node] = field(default_factory=list)
    name_node_map: dict[str, Node] = field(default_factory=dict)


class SubgraphMatcher:
    """match(graph) gives the places where the graph has the pattern's ops, targets and arguments. The pattern's inputs
    stand for anything, each for another node (match_placeholder: for inputs alone), its attributes for any of the same
    kind, its literals for their like (ignore_literals: for any); match_output: what it returns is what the graph
    returns. What stands between inputs and results has no users outside. remove_overlapping_matches: no two matches
    share a node."""

    def __init__(
        self, pattern: Graph, match_output: bool = False, match_placeholder: bool = False,
        remove_overlapping_matches: bool = True, ignore_literals: bool = False,
    ) -> None:  # fmt: skip
        if not len(pattern.nodes):
            raise ValueError("SubgraphMatcher cannot be initialized with an empty pattern")
        self.pattern, self.match_output, self.match_placeholder = pattern, match_output, match_placeholder
        self.remove_overlapping_matches, self.ignore_literals = remove_overlapping_matches, ignore_literals
        result = pattern.output_node()
        self.pattern_placeholder_nodes = [node for node in pattern.nodes if node.op == "placeholder"]
        self.pattern_returning_nodes = result.all_input_nodes
        ends = [node for node in result.all_input_nodes if len(node.users) == 1]
        self.pattern_anchors = [result] if match_output else ends

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """The matches in the order of the graph. node_name_match: nodes whose names have this in them match whatever
        the pattern says."""
        found = [self._finished(at) for at in self._places(graph, self.pattern_anchors, {}, node_name_match)]
        found = [match for match in found if match is not None]
        return self._remove_overlapping_matches(found) if self.remove_overlapping_matches else found

    def _places(self, graph: Graph, anchors: list, at: dict, name: str) -> Iterator[dict]:
        """Maps in which all anchors have their places."""
        if not anchors:
            if at:
                yield at
            return
        first, *rest = anchors
        for node in graph.nodes:
            trial = dict(at)
            if node not in at.values() and self._match_nodes(first, node, trial, name):
                yield from self._places(graph, rest, trial, name)

    def _finished(self, at: dict) -> InternalMatch | None:
        if not all(node in at for node in self.pattern_returning_nodes) or not self._is_contained(at):
            return None
        inputs = [at[node] for node in self.pattern_placeholder_nodes if node in at]
        results = [at[node] for node in self.pattern_returning_nodes]
        return InternalMatch(list(self.pattern_anchors), at, inputs, results)

    def _is_contained(self, nodes_map: dict) -> bool:
        """Whether nobody outside reads what stands between inputs and results."""
        inside = {node for own, node in nodes_map.items() if own.op != "placeholder"}
        between = [
            node
            for own, node in nodes_map.items()
            if own.op not in ("placeholder", "output") and own not in self.pattern_returning_nodes
        ]
        return all(node.op == "get_attr" or inside.issuperset(node.users) for node in between)

    def _remove_overlapping_matches(self, matches: list) -> list:
        kept, taken = [], set()
        for match in matches:
            own = {node for key, node in match.nodes_map.items() if key.op not in ("placeholder", "get_attr", "output")}
            if own.isdisjoint(taken):
                taken |= own
                kept.append(match)
        return kept

    # ---- one node, one argument
    def _match_attributes(self, pn: Node, gn: Node) -> bool:
        """Whether two attributes are of one kind: both tensors, or equal."""
        from .... import _C

        own, other = _attribute(pn), _attribute(gn)
        if own is None or other is None:
            return pn.target == gn.target
        if isinstance(own, _C.TensorBase) or isinstance(other, _C.TensorBase):
            return isinstance(own, _C.TensorBase) and isinstance(other, _C.TensorBase)
        return type(own) is type(other)

    def _nodes_are_equal(self, pn: Node, gn: Node, node_name_match: str = "") -> bool:
        if pn.op == "placeholder" and not self.match_placeholder:
            return True
        if node_name_match and node_name_match in gn.name:
            return True
        if pn.op != gn.op:
            return False
        if pn.op in ("placeholder", "output"):
            return True
        return self._match_attributes(pn, gn) if pn.op == "get_attr" else pn.target == gn.target

    def _match_nodes(self, pn: Node, gn: Node, at: dict, node_name_match: str = "") -> bool:
        """Whether `gn`, with what it reads, stands for `pn`; `at` gets what was found."""
        if pn in at:
            return at[pn] is gn
        if gn in at.values() or not self._nodes_are_equal(pn, gn, node_name_match):
            return False
        at[pn] = gn
        if pn.op == "placeholder":
            return True
        (args, kwargs), (other_args, other_kwargs) = in_order_of_schema(pn), in_order_of_schema(gn)
        return self._same(args, other_args, at, node_name_match) and self._same(
            dict(kwargs), dict(other_kwargs), at, node_name_match
        )

    def _same(self, own, other, at: dict, name: str) -> bool:
        if isinstance(own, Node):
            return self._match_nodes(own, other, at, name) if isinstance(other, Node) else self._bound(own, other, at)
        if isinstance(own, (list, tuple)):
            alike = isinstance(other, (list, tuple)) and len(own) == len(other)
            return alike and all(self._same(a, b, at, name) for a, b in zip(own, other))
        if isinstance(own, dict):
            alike = isinstance(other, dict) and own.keys() == other.keys()
            return alike and all(self._same(own[key], other[key], at, name) for key in own)
        if isinstance(own, slice):
            fields = ("start", "stop", "step")
            return isinstance(other, slice) and all(
                self._same(getattr(own, each), getattr(other, each), at, name) for each in fields
            )
        return self.ignore_literals or (not isinstance(other, Node) and type(own) is type(other) and own == other)

    @staticmethod
    def _bound(own: Node, other, at: dict) -> bool:
        """Whether an input of the pattern stands for a number or text."""
        if own.op != "placeholder":
            return False
        if own in at:
            return not isinstance(at[own], Node) and at[own] == other
        at[own] = other
        return True


def _attribute(node: Node):
    """What a get_attr node names; None where the graph has no module, or that has no such attribute."""
    value = node.graph.owning_module
    for name in node.target.split("."):
        value = getattr(value, name, None)
    return value
