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


def wrap(fn_or_name):
    """Marks a function that symbolic_trace records as one node: what it was given."""
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError("Unsupported type for global function! Must be either a callable or string name")
    return fn_or_name


def __getattr__(name: str):
    if name == "experimental":
        from importlib import import_module

        return import_module(f"{__name__}.experimental")
    return getter("torch.fx")(name)
