"""The functional graphs of src/pass as graphs of torch.fx, in PyTorch's order: a forward returns the new values of
written inputs, then the outputs, then what it saves; a backward takes what was saved, then the tangents in the order of
these results, and returns one gradient, or None, for each input."""

from .. import _C
from ..fx import Graph, GraphModule, Node
from ..fx._of_schema import numbers_as_tensors
from ..fx.interpreter import Interpreter
from ..fx.passes.shape_prop import note_tensors
from ..utils import _pytree as pytree


class Names:
    """How a graph of AOT stands to what its user sees. order: for each input that is shown, its place among the
    graph's, or (constant,); None: as they are."""

    def __init__(self, aot, n_inputs: int, order=None) -> None:
        self.n_outputs, mutated, self.grad_of, self.has_tangent, _ = aot.about
        self.n_mutated, self.n_inputs = len(mutated), n_inputs
        self.n_forward = self.n_outputs + self.n_mutated
        shown = range(n_inputs) if order is None else order
        self.inputs = tuple(-1 if isinstance(place, tuple) else place for place in shown)
        self.constants = {k: place[0] for k, place in enumerate(shown) if isinstance(place, tuple)}
        self.mutated = mutated
        self.prefix, self.first = ("arg{}_1", 0) if aot.joint is None else ("primals_{}", 1)
        outputs, written = self.has_tangent[: self.n_outputs], self.has_tangent[self.n_outputs :]
        self.tangents = (*range(sum(outputs), sum(outputs) + sum(written)), *range(sum(outputs)))

    def input_name(self, k: int) -> str:
        """Of the k-th input that is shown."""
        return self.prefix.format(k + self.first)

    def results(self, n_saved: int) -> tuple:
        """For each result of the graph, its place among the shown ones."""
        at, n = self.n_mutated, self.n_forward
        return (*range(at, n), *range(at), *range(n, n + n_saved))

    def backward_inputs(self, n_saved: int) -> tuple:
        """For each shown input of the backward, its place among the graph's."""
        return (*range(n_saved), *(n_saved + k for k in self.tangents))

    def gradients(self) -> tuple:
        """For each of the graph's inputs, the place of its gradient among the shown ones; one that is not shown has
        none."""
        places = {place: k for k, place in enumerate(self.inputs)}
        return tuple(places[place] for place in range(len(self.grad_of)))


def _copied(source: Graph, inputs: list) -> tuple:
    """A new graph with the placeholders `inputs` (name, node of source or None, value) and the nodes of source."""
    made, known = Graph(), {}
    for name, node, value in inputs:
        new = made.placeholder(name)
        if node is not None:
            known[node] = new
            new.meta = dict(node.meta)
        else:
            new.meta["val"] = value
    for node in source.nodes:
        if node not in known and node.op != "output":
            known[node] = made.node_copy(node, lambda n: known[n])
    return made, [known.get(value) for value in source.output_node().args[0]]


def _module(graph: _C.Graph, arrange, inputs) -> GraphModule:
    """A GraphModule of a C graph: inputs(placeholders) says what is shown, arrange(results) what is returned."""
    source = GraphModule(graph)
    made, results = _copied(source.graph, inputs(source.graph.find_nodes(op="placeholder")))
    made.output(arrange(results))
    numbers_as_tensors(made)
    note_tensors(made)
    return GraphModule(source, made)


def _shown(names: Names, placeholders: list) -> list:
    shown = []
    for k, place in enumerate(names.inputs):
        node = placeholders[place] if place >= 0 else None
        shown.append((names.input_name(k), node, names.constants.get(k)))
    return shown


def _forward_results(names: Names, results: list) -> tuple:
    return (*results[names.n_outputs : names.n_forward], *results[: names.n_outputs])


def forward_of(aot, names: Names) -> GraphModule:
    """The forward of a graph without gradients."""
    return _module(aot.forward, lambda results: _forward_results(names, results), lambda all: _shown(names, all))


def joint_of(aot, names: Names) -> GraphModule:
    """Forward and backward in one graph: primals, then tangents -> the forward's results, then the gradients."""
    n = len(names.grad_of)

    def inputs(placeholders):
        tangents = [(f"tangents_{k + 1}", placeholders[n + at], None) for k, at in enumerate(names.tangents)]
        return _shown(names, placeholders) + tangents

    def arrange(results):
        grads = []
        for place in names.inputs:
            at = names.grad_of[place] if place >= 0 else -1
            grads.append(results[names.n_forward + at] if at >= 0 else None)
        return (*_forward_results(names, results), *grads)

    gm = _module(aot.joint, arrange, inputs)
    tag_phases(gm, traced=True)
    return gm


def is_tangent(node) -> bool:
    """Whether a node of a joint graph is the gradient of a result."""
    return node.op == "placeholder" and node.target.startswith("tangents")


def tag_phases(gm, traced: bool = False) -> None:
    """meta["partitioner_tag"]: is_forward or is_backward. traced: the user's lines say which calls are the forward's,
    and formulas have none; otherwise what follows the first use of a tangent is the backward."""
    behind = False
    for node in gm.graph.nodes:
        given = node.op == "placeholder"
        behind = behind or (not given and any(map(is_tangent, node.all_input_nodes)))
        backward = is_tangent(node) or (not given and (behind or (traced and "source" not in node.meta)))
        node.meta["partitioner_tag"] = "is_backward" if backward else "is_forward"


def fake_inputs(gm) -> list:
    """What the graph's placeholders stand for, as tensors without elements."""
    return [node.meta.get("val") for node in gm.graph.find_nodes(op="placeholder")]


class ScopedInterpreter(Interpreter):
    """Runs a graph; what is recorded for a node has the scope {node: number} says."""

    def __init__(self, module, scopes: dict) -> None:
        super().__init__(module)
        self.scopes = scopes

    def run_node(self, n: Node):
        before = _C.enter_scope(self.scopes.get(n, 0))
        try:
            return super().run_node(n)
        finally:
            _C.enter_scope(before)


class _Decomposing(ScopedInterpreter):
    """Keeps the scopes that the nodes have."""

    def __init__(self, gm, table: dict) -> None:
        super().__init__(gm, {node: node.meta["scope"] for node in gm.graph.nodes if "scope" in node.meta})
        self.table = table
        self.extra_traceback = False

    def call_function(self, target, args: tuple, kwargs: dict):
        function = self.table.get(target)
        if function is None:
            return target(*args, **kwargs)
        result = function(*args, **kwargs)
        return target(*args, **kwargs) if result is NotImplemented else result


def _names_in(gm, table: dict) -> bool:
    return any(node.op == "call_function" and node.target in table for node in gm.graph.nodes)


def recorded(gm, call) -> _C.Graph:
    """The C graph of call(*values) with stand-ins for the graph's placeholders; it returns a flat sequence."""
    placeholders = gm.graph.find_nodes(op="placeholder")
    values = [node.meta.get("val") for node in placeholders]
    tensors = [k for k, value in enumerate(values) if isinstance(value, _C.TensorBase)]

    def run(*given):
        full = list(values)
        for k, fake in zip(tensors, given):
            full[k] = fake
        return call(*full)

    like = tuple(values[k].detach() for k in tensors)
    return _C.record(run, like, tuple(placeholders[k].name for k in tensors))


def retrace(gm: GraphModule, table: dict) -> GraphModule:
    """The graph with the operators of `table` taken to pieces by its functions, these again, and so on."""
    for _ in range(64):
        if not table or not _names_in(gm, table):
            return gm
        gm = _retrace_once(gm, table)
        tag_phases(gm)
    raise RuntimeError("decompositions: they lead back to the operators that they were to take to pieces")


def _retrace_once(gm: GraphModule, table: dict) -> GraphModule:
    before, result = gm.graph.find_nodes(op="placeholder"), gm.graph.output_node().args[0]
    nodes, spec = pytree.tree_flatten(result)

    def run(*values):
        leaves = pytree.tree_leaves(_Decomposing(gm, table).run(*values))
        return [leaf for leaf, node in zip(leaves, nodes, strict=True) if isinstance(node, Node)]

    def inputs(placeholders):
        by_name = {node.target: node for node in placeholders}
        return [(node.name, by_name.get(node.name), node.meta.get("val")) for node in before]

    def arrange(found):
        rest = iter(found)
        return pytree.tree_unflatten([next(rest) if isinstance(node, Node) else node for node in nodes], spec)

    return _module(recorded(gm, run), arrange, inputs)
