"""GraphModule: a graph that can be called."""

from ..nn import Module
from .graph import Graph


class GraphModule(Module):
    """A module whose forward runs a graph. `graph`: a Graph, or the `_C.Graph` behind one."""

    def __init__(self, graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        object.__setattr__(self, "graph", graph if isinstance(graph, Graph) else Graph(graph))
        object.__setattr__(self, "_class_name", class_name)

    def forward(self, *args):
        """Runs the graph operator by operator."""
        return self.graph._c(*args)

    @property
    def code(self) -> str:
        """The forward as Python source."""
        return self.graph.python_code()

    def print_readable(self, print_output: bool = True, **options) -> str:
        """The forward with shapes and source lines; printed unless print_output is False."""
        text = self.graph.python_code(verbose=True)
        if print_output:
            print(text)
        return text

    def recompile(self) -> None:
        """Nothing to do: the graph is run, not compiled to Python."""

    def __repr__(self) -> str:
        return f"{self._class_name}()\n\n{self.code}"
