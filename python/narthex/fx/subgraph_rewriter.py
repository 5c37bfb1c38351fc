"""replace_pattern: finds a small graph in a large one and puts another in its place."""

from typing import NamedTuple

from ..nn import Module
from ._symbolic_trace import symbolic_trace
from .graph import Graph
from .graph_module import GraphModule, _copy_attr
from .node import Node, map_arg


class Match(NamedTuple):
    """anchor: the pattern's node that the search began at; nodes_map: the pattern's nodes to those of the graph."""

    anchor: Node
    nodes_map: dict


class ReplacedPatterns(NamedTuple):
    """A Match with the nodes that took its place."""

    anchor: Node
    nodes_map: dict
    replacements: list


def _graph_of(pattern) -> Graph:
    if isinstance(pattern, GraphModule):
        return pattern.graph
    return pattern if isinstance(pattern, Graph) else symbolic_trace(pattern).graph


def _results(graph: Graph) -> list:
    """The nodes that a graph returns, in order."""
    found: list = []
    map_arg(graph.output_node().args[0], found.append)
    return found


def _replace(graph: Graph, match, pattern: Graph, replacement: Graph) -> list:
    """Puts the replacement where the match is; the nodes that it brought."""
    own = [node for node in pattern.nodes if node.op == "placeholder"]
    inputs = [node for node in replacement.nodes if node.op == "placeholder"]
    if len(inputs) != len(own):
        raise RuntimeError(f"The replacement takes {len(inputs)} inputs, the pattern {len(own)}")
    values = {new: match.nodes_map[old] for new, old in zip(inputs, own) if old in match.nodes_map}
    found = [match.nodes_map[result] for result in _results(pattern)]
    users = [user for node in found for user in node.users if user not in found]
    at = min(users, key=graph._place) if users else max(found, key=graph._place)
    with graph.inserting_before(at):
        before = set(graph.nodes)
        made = graph.graph_copy(replacement, values)
        new = [node for node in graph.nodes if node not in before]
    given: list = []
    map_arg(made, given.append)
    if len(given) != len(found):
        raise RuntimeError(f"The replacement returns {len(given)} values, the pattern {len(found)}")
    for old, node in zip(found, given):
        old.replace_all_uses_with(node)
    for node in reversed(list(pattern.nodes)):
        old = match.nodes_map.get(node)
        if node.op not in ("placeholder", "output") and isinstance(old, Node) and not old._erased and not old.users:
            graph.erase_node(old)
    return new


def replace_pattern(gm: GraphModule, pattern, replacement) -> list:
    """Puts `replacement` wherever the graph of `gm` has the shape of `pattern`, both functions, modules or graphs
    with as many inputs; gives the matches and recompiles."""
    return [Match(item.anchor, item.nodes_map) for item in replace_pattern_with_filters(gm, pattern, replacement)]


def replace_pattern_with_filters(
    gm: GraphModule,
    pattern,
    replacement=None,
    match_filters=None,
    ignore_literals=False,
    replacement_callback=None,
    node_name_match="",
) -> list:
    """The same of those matches that each filter (match, graph, pattern's graph) lets through. ignore_literals: numbers
    and texts in the pattern stand for any; node_name_match: nodes with this in their names match whatever it says."""
    from .passes.utils.matcher_utils import SubgraphMatcher

    wanted = _graph_of(pattern)
    matcher, done, renamed = SubgraphMatcher(wanted, ignore_literals=ignore_literals), [], {}
    for match in matcher.match(gm.graph, node_name_match):
        if not all(accepts(match, gm.graph, wanted) for accepts in match_filters or ()):
            continue
        for key, value in match.nodes_map.items():  # what an earlier replacement took out
            while isinstance(value, Node) and value in renamed:
                value = renamed[value]
            match.nodes_map[key] = value
        with_what = replacement_callback(match, gm.graph, wanted) if replacement_callback else _graph_of(replacement)
        olds = [match.nodes_map[result] for result in _results(wanted)]
        new = _replace(gm.graph, match, wanted, with_what)
        if new:
            renamed.update(dict(zip(olds, new[-len(olds) :])))
        done.append(ReplacedPatterns(match.anchors[0], match.nodes_map, new))
    if isinstance(replacement, Module):
        for node in gm.graph.nodes:
            if node.op in ("call_module", "get_attr") and not _has(gm, node.target):
                _copy_attr(replacement, gm, node.target)
    gm.recompile()
    return done


def _has(module: Module, path: str) -> bool:
    for name in path.split("."):
        if not hasattr(module, name):
            return False
        module = getattr(module, name)
    return True
