"""Partitioners: cut a joint graph (primals, tangents -> results, gradients) into a forward and a backward graph."""

from ..fx import Graph, GraphModule
from ._graphs import _module, is_tangent, recorded

__all__ = ["default_partition", "draw_graph", "is_sym_node", "min_cut_rematerialization_partition"]


def is_sym_node(node) -> bool:
    """Whether a node's value is a size: none is, sizes in these graphs are numbers."""
    return False


def _needed(results: list, known: set) -> set:
    """The nodes that `results` are computed from, down to those of `known`."""
    found, waiting = set(), [node for node in results if node is not None]
    while waiting:
        node = waiting.pop()
        if node in found or node in known:
            continue
        found.add(node)
        waiting.extend(node.all_input_nodes)
    return found


def _part(joint: GraphModule, inputs: list, results: list) -> GraphModule:
    """The piece of the joint graph from `inputs` to `results`."""
    made, known = Graph(), {}
    for node in inputs:
        known[node] = new = made.placeholder(node.name)
        new.meta = dict(node.meta)
    needed = _needed(results, set(inputs))
    for node in joint.graph.nodes:
        if node not in needed:
            continue
        if node.op == "placeholder":
            raise RuntimeError(f"partition: {node.name} is needed and was not saved")
        known[node] = made.node_copy(node, lambda n: known[n])
    made.output(tuple(None if node is None else known[node] for node in results))
    return GraphModule(joint, made)


def _results(joint: GraphModule, num_fwd_outputs: int) -> tuple:
    results = list(joint.graph.output_node().args[0])
    return results[:num_fwd_outputs], results[num_fwd_outputs:]


def default_partition(
    joint_module: GraphModule, _joint_inputs, *, num_fwd_outputs: int, static_lifetime_input_indices=None, **others
):
    """(forward, backward): what was computed before the gradients is the forward's, which saves what these use."""
    primals = [node for node in joint_module.graph.find_nodes(op="placeholder") if not is_tangent(node)]
    tangents = [node for node in joint_module.graph.find_nodes(op="placeholder") if is_tangent(node)]
    outputs, gradients = _results(joint_module, num_fwd_outputs)
    computed = [node for node in joint_module.graph.nodes if node.meta.get("partitioner_tag") == "is_forward"]
    first = _needed([*outputs, *computed], set()) | set(primals)
    second = _needed(gradients, first)
    saved: dict = {}
    for node in joint_module.graph.nodes:
        if node not in first:
            continue
        used = any(user in second for user in node.users) or node in gradients
        if used and isinstance(node.meta.get("val"), tuple):  # several results: those that are picked
            saved.update(dict.fromkeys(user for user in node.users if user in second))
        elif used:
            saved[node] = None
    forward = _part(joint_module, primals, [*outputs, *saved])
    return forward, _part(joint_module, [*saved, *tangents], gradients)


def min_cut_rematerialization_partition(
    joint_module: GraphModule,
    _joint_inputs,
    compiler="inductor",
    *,
    num_fwd_outputs: int,
    static_lifetime_input_indices=None,
    **others,
):
    """(forward, backward): cut where the fewest bytes are saved, with what is cheap computed again; the engine's own
    cut. The graph must be of operators that Narthex has."""
    outputs, gradients = _results(joint_module, num_fwd_outputs)
    placeholders = joint_module.graph.find_nodes(op="placeholder")
    primals = [node for node in placeholders if not is_tangent(node)]
    given = [node for node in gradients if node is not None]

    def run(*values):
        results = joint_module.forward(*values)
        return [*results[:num_fwd_outputs], *(value for value in results[num_fwd_outputs:] if value is not None)]

    joint = recorded(joint_module, run)
    tensors = [node for node in placeholders if node.meta.get("val") is not None and hasattr(node.meta["val"], "shape")]
    n_inputs = sum(not is_tangent(node) for node in tensors)
    forward, backward, _ = joint.split(n_inputs, num_fwd_outputs)

    def all_primals(found):
        by_name = {node.target: node for node in found}
        return [(node.name, by_name.get(node.name), node.meta.get("val")) for node in primals]

    def all_gradients(results):
        rest = iter(results)
        return tuple(None if node is None else next(rest) for node in gradients)

    assert len(given) == len(backward.nodes[-1].args[0])
    shown = lambda found: [(node.name, node, None) for node in found]  # noqa: E731
    return _module(forward, tuple, all_primals), _module(backward, all_gradients, shown)


def draw_graph(traced, fname: str, figname: str = "fx_graph", clear_meta=True, prog=None, parse_stack_trace=False):
    """Writes the graph as a picture; see torch.fx.passes.graph_drawer."""
    from ..fx.passes.graph_drawer import FxGraphDrawer

    FxGraphDrawer(traced, figname).get_dot_graph().write(fname)
