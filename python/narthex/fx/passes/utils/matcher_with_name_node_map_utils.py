"""SubgraphMatcherWithNameNodeMap: patterns that give names to some of their nodes."""

from ...graph import Graph
from ...graph_module import GraphModule
from ...node import Node
from .matcher_utils import InternalMatch, SubgraphMatcher


class SubgraphMatcherWithNameNodeMap(SubgraphMatcher):
    """The pattern returns its results and, behind them, a dict of names to nodes; each match has the graph's nodes by
    these names in name_node_map."""

    def __init__(
        self, pattern_gm: GraphModule, match_output: bool = False, match_placeholder: bool = False,
        remove_overlapping_matches: bool = True, ignore_literals: bool = False,
    ) -> None:  # fmt: skip
        pattern, names = _split(pattern_gm)
        self.name_node_map, self._kept = names, pattern  # which owns what the pattern's attributes are
        super().__init__(
            pattern.graph, match_output, match_placeholder, remove_overlapping_matches, ignore_literals
        )

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        found = super().match(graph, node_name_match)
        for match in found:
            match.name_node_map = {name: match.nodes_map[node] for name, node in self.name_node_map.items()}
        return found


def _split(gm: GraphModule) -> tuple[GraphModule, dict[str, Node]]:
    """The pattern without its last result, and that one."""
    copied = GraphModule(gm, Graph())
    graph, at = Graph(), {}
    result = graph.graph_copy(gm.graph, at)
    spec = getattr(gm, "_out_spec", None)
    if spec is not None:
        from ....utils._pytree import tree_unflatten

        result = tree_unflatten(list(result), spec)
    if not isinstance(result, (list, tuple)) or not isinstance(result[-1], dict):
        raise AssertionError(f"the pattern must return its results and, as the last one, a dict of names, not {result}")
    *results, names = result
    graph.output(results[0] if len(results) == 1 else tuple(results))
    for name, value in (*gm._parameters.items(), *gm._buffers.items(), *gm._modules.items()):
        setattr(copied, name, value)
    copied.graph = graph
    return copied, dict(names)
