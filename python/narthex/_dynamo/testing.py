"""torch._dynamo.testing: backends that count and keep what they are given."""


class CompileCounter:
    """Runs graphs operator by operator; `frame_count` graphs came, `op_count` calls in them."""

    def __init__(self) -> None:
        self.frame_count = self.op_count = 0

    def __call__(self, gm, example_inputs):
        self.frame_count += 1
        self.op_count += sum(node.op.startswith("call") for node in gm.graph.nodes)
        return gm.forward

    def clear(self) -> None:
        """Counts from 0 again."""
        self.frame_count = self.op_count = 0


class CompileCounterWithBackend(CompileCounter):
    """Counts, and gives each graph to the backend of this name; `graphs` in order."""

    def __init__(self, backend: str) -> None:
        super().__init__()
        self.backend, self.graphs = backend, []

    def __call__(self, gm, example_inputs):
        from .backends import lookup

        super().__call__(gm, example_inputs)
        self.graphs.append(gm)
        return lookup(self.backend)(gm, example_inputs)

    def clear(self) -> None:
        """Counts from 0 again."""
        super().clear()
        self.graphs = []


class EagerAndRecordGraphs:
    """Runs graphs operator by operator and keeps them in `graphs`."""

    def __init__(self) -> None:
        self.graphs: list = []

    def __call__(self, gm, example_inputs):
        self.graphs.append(gm)
        return gm.forward
