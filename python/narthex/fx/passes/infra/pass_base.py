"""PassBase: a pass over a GraphModule, with what must hold before and after it."""

import abc
from typing import NamedTuple

from ....nn import Module
from ...graph_module import GraphModule


class PassResult(NamedTuple):
    """The module that a pass gives, and whether the pass changed anything."""

    graph_module: Module
    modified: bool


class PassBase(abc.ABC):
    """Called with a GraphModule: requires, call, ensures, in that order; what call gives."""

    def __call__(self, graph_module: GraphModule) -> PassResult | None:
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    @abc.abstractmethod
    def call(self, graph_module: GraphModule) -> PassResult | None:
        """The pass itself."""

    def requires(self, graph_module: GraphModule) -> None:  # noqa: B027 - there need not be one
        """Raises where the pass cannot run."""

    def ensures(self, graph_module: GraphModule) -> None:  # noqa: B027
        """Raises where the pass has left something that must not be."""
