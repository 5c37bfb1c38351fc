"""FakeTensorProp: notes at each node of a graph what it gives, without elements."""

from ... import _C
from ..._subclasses.fake_tensor import FakeTensorMode
from ..interpreter import Interpreter
from ..node import Node, map_aggregate

__all__ = ["FakeTensorProp"]


class FakeTensorProp(Interpreter):
    """propagate(*inputs) runs the graph on fakes; node.meta["val"] then has what the node gives."""

    def __init__(self, module, mode: FakeTensorMode | None = None) -> None:
        super().__init__(module)
        self._mode = mode or FakeTensorMode()

    def run_node(self, n: Node):
        result, known = super().run_node(n), [True]

        def note(value):
            if not isinstance(value, (_C.TensorBase, int, float, bool)):
                known[0] = known[0] and value is None
            return value

        made = map_aggregate(result, note)
        if known[0] and made is not None:
            n.meta["val"] = made
        return result

    def propagate(self, *args):
        """The graph's result for fakes of these inputs."""
        made = [self._mode.from_tensor(x) if isinstance(x, _C.TensorBase) else x for x in args]
        return self.propagate_dont_convert_inputs(*made)

    def propagate_dont_convert_inputs(self, *args):
        """The graph's result for inputs that are fakes."""
        with self._mode:
            return super().run(*args)
