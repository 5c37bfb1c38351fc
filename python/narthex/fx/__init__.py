"""torch.fx: graphs as Python sees them. The graph itself is C (src/ir); Graph and Node are views of it."""

from .._absent import getter
from .graph import Graph, Node
from .graph_module import GraphModule

__all__ = ["Graph", "GraphModule", "Node", "symbolic_trace"]


def symbolic_trace(root, concrete_args=None):
    """Not there yet: raises NotImplementedError. torch.compile(f, backend=...) hands a GraphModule to its backend."""
    raise NotImplementedError(
        "symbolic_trace is not there yet: capture with torch.compile(f, backend=my_backend) instead"
    )


__getattr__ = getter("torch.fx")
