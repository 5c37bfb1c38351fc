"""torch.fx: programs as graphs that Python edits. A Graph is a list of nodes of its own; one that was captured is
read from the C graph behind it (src/ir), which is what runs until the module is recompiled."""

from .._absent import getter
from ._symbolic_trace import Tracer, symbolic_trace, wrap
from .graph import CodeGen, Graph
from .graph_module import GraphModule
from .interpreter import Interpreter, Transformer
from .node import Node, has_side_effect, map_arg
from .proxy import Proxy
from .subgraph_rewriter import replace_pattern

__all__ = [
    "CodeGen", "Graph", "GraphModule", "Interpreter", "Node", "Proxy", "Tracer", "Transformer", "has_side_effect",
    "map_arg", "replace_pattern", "symbolic_trace", "wrap",
]  # fmt: skip


def __getattr__(name: str):
    if name in ("experimental", "passes", "traceback"):
        from importlib import import_module

        return import_module(f"{__name__}.{name}")
    return getter("torch.fx")(name)
