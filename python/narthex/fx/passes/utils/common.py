"""Graphs as modules of their own."""

from ....nn import Module
from ...graph import Graph
from ...graph_module import GraphModule, _assign_attribute, _paths_of
from .matcher_utils import SubgraphMatcher


class HolderModule(Module):
    """A module of these submodules."""

    def __init__(self, d: dict) -> None:
        super().__init__()
        for name, module in d.items():
            self.add_module(name, module)


def lift_subgraph_as_module(
    gm: GraphModule, subgraph: Graph, comp_name: str = "", class_name: str = "GraphModule"
) -> tuple[GraphModule, dict[str, str]]:
    """A module of `subgraph` with what it names of `gm`, and these names to the paths that they have below
    `comp_name`."""
    root = HolderModule({})
    for path in _paths_of(subgraph):
        value = gm
        for name in path.split("."):
            value = getattr(value, name)
        _assign_attribute(value, root, path)
    named = {path: f"{comp_name}.{path}" for path in _paths_of(subgraph)}
    return GraphModule(root, subgraph, class_name), named


def compare_graphs(left: Graph, right: Graph) -> bool:
    """Whether two graphs are the same but for the names of their nodes."""
    return len(left.nodes) == len(right.nodes) and bool(
        SubgraphMatcher(left, match_output=True, match_placeholder=True).match(right)
    )
