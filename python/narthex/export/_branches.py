"""The branches of a cond in an archive: each a graph of ATen operators whose inputs are what the call is given."""

from .. import _C
from .._functorch._graphs import Names, forward_of, retrace
from .._ops import ops
from ..fx import Graph, GraphModule, Interpreter, Node

CALL = "torch.ops.higher_order.cond"  # what archives call it by
COND = ops.narthex.cond.default


def of_operators(graph: _C.Graph) -> Graph:
    """A branch as ATen operators, which write nothing."""
    aot = graph.aot(False)
    names = Names(aot, sum(node.op == "placeholder" for node in graph.nodes))
    if names.mutated:
        raise NotImplementedError("torch.export.save: a branch of cond that writes into what it is given")
    return retrace(forward_of(aot, names), {}).graph


def _as_branch(graph: Graph) -> _C.Graph:
    """A branch that was read, as what the call takes."""
    places = graph.find_nodes(op="placeholder")
    module = GraphModule({}, graph)

    def call(*given):
        return list(Interpreter(module).run(*given))

    values, names = tuple(node.meta["val"] for node in places), tuple(node.name for node in places)
    return _C.record(call, values, names).as_argument()


def arguments_of(args: list) -> tuple:
    """What an archive's cond is given (pred, two graphs, operands), as Narthex's takes it."""
    is_known = len(args) == 4 and isinstance(args[0], Node) and all(isinstance(each, Graph) for each in args[1:3])
    if not is_known or not isinstance(args[3], list):
        raise NotImplementedError("torch.export.load: a cond that is given other things than tensors and two graphs")
    pred, then, otherwise, operands = args
    return pred, operands, operands, _as_branch(then), _as_branch(otherwise)
