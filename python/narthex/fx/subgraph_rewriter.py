"""replace_pattern: finds a small graph in a large one and puts another in its place."""

from typing import NamedTuple

from ..nn import Module
from ._symbolic_trace import symbolic_trace
from .graph import Graph
from .graph_module import GraphModule, _copy_attr
from .node import Node, map_arg


class Match(NamedTuple):
    """anchor: the last node that was found; nodes_map: the pattern's nodes to those of the graph."""

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


class SubgraphMatcher:
    """Finds where a graph has the shape of `pattern`: same ops, targets and arguments, the pattern's inputs standing
    for anything; what is found between has no users outside."""

    def __init__(self, pattern: Graph) -> None:
        self.pattern = pattern
        self.inputs = [node for node in pattern.nodes if node.op == "placeholder"]
        found: list = []
        map_arg(pattern.output_node().args[0], found.append)
        self.results = found

    def _same_kind(self, own: Node, other: Node) -> bool:
        if own.op != other.op:
            return False
        if own.op in ("call_module", "get_attr") and own.target != other.target:
            return False
        return own.target == other.target

    def _values(self, own, other, at: dict) -> bool:
        if isinstance(own, Node):
            return (
                isinstance(other, Node)
                and self._node(own, other, at)
                or own.op == "placeholder"
                and self._bind(own, other, at)
            )
        if isinstance(own, (list, tuple)):
            return (
                isinstance(other, (list, tuple))
                and len(own) == len(other)
                and all(self._values(a, b, at) for a, b in zip(own, other))
            )
        if isinstance(own, dict):
            return (
                isinstance(other, dict)
                and own.keys() == other.keys()
                and all(self._values(own[key], other[key], at) for key in own)
            )
        if isinstance(own, slice):
            return isinstance(other, slice) and all(
                self._values(getattr(own, k), getattr(other, k), at) for k in ("start", "stop", "step")
            )
        return type(own) is type(other) and own == other

    @staticmethod
    def _bind(own: Node, other, at: dict) -> bool:
        return at.setdefault(own, other) is other

    def _node(self, own: Node, other: Node, at: dict) -> bool:
        if own in at:
            return at[own] is other
        if own.op == "placeholder":
            return self._bind(own, other, at)
        if not self._same_kind(own, other):
            return False
        at[own] = other
        return self._values(own.args, other.args, at) and self._values(own.kwargs, other.kwargs, at)

    def _is_closed(self, at: dict) -> bool:
        inside = {id(at[node]) for node in at if node.op != "placeholder"}
        free = {id(at[node]) for node in self.results}
        closed = [node for node in at if node.op not in ("placeholder", "get_attr") and id(at[node]) not in free]
        return all(id(user) in inside for node in closed for user in at[node].users)

    def match(self, graph: Graph) -> list:
        """The matches, which share no node, in the order of the graph."""
        found, taken = [], set()
        for node in graph.nodes:
            at: dict = {}
            if not self.results or not self._node(self.results[0], node, at):
                continue
            if not all(self._rest(result, graph, at) for result in self.results[1:]) or not self._is_closed(at):
                continue
            own = {id(value) for key, value in at.items() if key.op not in ("placeholder", "get_attr")}
            if own & taken or id(node) not in own:
                continue
            taken |= own
            found.append(Match(node, at))
        return found

    def _rest(self, result: Node, graph: Graph, at: dict) -> bool:
        for node in graph.nodes:
            trial = dict(at)
            if self._node(result, node, trial):
                at.update(trial)
                return True
        return False


def _replace(graph: Graph, match: Match, matcher: SubgraphMatcher, replacement: Graph) -> list:
    inputs = [node for node in replacement.nodes if node.op == "placeholder"]
    if len(inputs) != len(matcher.inputs):
        raise RuntimeError(f"The replacement takes {len(inputs)} inputs, the pattern {len(matcher.inputs)}")
    values = {own: match.nodes_map[other] for own, other in zip(inputs, matcher.inputs) if other in match.nodes_map}
    found = [match.nodes_map[result] for result in matcher.results]
    users = [user for node in found for user in node.users if user not in found]
    at = min(users, key=graph._place) if users else max(found, key=graph._place)
    with graph.inserting_before(at):
        before = set(graph.nodes)
        made = graph.graph_copy(replacement, values)
        new = [node for node in graph.nodes if node not in before]
    given: list = []
    map_arg(made, given.append)
    if len(given) != len(matcher.results):
        raise RuntimeError(f"The replacement returns {len(given)} values, the pattern {len(matcher.results)}")
    for result, node in zip(matcher.results, given):
        match.nodes_map[result].replace_all_uses_with(node)
    for own in reversed(list(matcher.pattern.nodes)):
        old = match.nodes_map.get(own)
        if own.op not in ("placeholder", "output") and isinstance(old, Node) and not old._erased and not old.users:
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
    """The same of those matches that each filter (match, graph, pattern's graph) lets through."""
    if ignore_literals or node_name_match:
        raise NotImplementedError("replace_pattern_with_filters: ignore_literals and node_name_match are not there yet")
    wanted = _graph_of(pattern)
    matcher, done, renamed = SubgraphMatcher(wanted), [], {}
    for match in matcher.match(gm.graph):
        if not all(accepts(match, gm.graph, wanted) for accepts in match_filters or ()):
            continue
        for key, value in match.nodes_map.items():  # what an earlier replacement took out
            while isinstance(value, Node) and value in renamed:
                value = renamed[value]
            match.nodes_map[key] = value
        with_what = replacement_callback(match, gm.graph, wanted) if replacement_callback else _graph_of(replacement)
        olds = [match.nodes_map[result] for result in matcher.results]
        new = _replace(gm.graph, match, matcher, with_what)
        if new:
            renamed.update(dict(zip(olds, new[-len(olds) :])))
        done.append(ReplacedPatterns(match.anchor, match.nodes_map, new))
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
