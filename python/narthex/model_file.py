"""Model files for C programs: a program compiled by the engine, with its weights, which nx_session_load() of narthex.h
loads. Not a module of PyTorch's; torch.export.save writes PyTorch's archives."""

from . import _C
from .export import ExportedProgram

__all__ = ["save"]


def save(ep: ExportedProgram, f, dynamic_shapes=None, gears=None) -> None:
    """Compiles the program for the sizes of its example inputs and writes it to the path `f`. The file's inputs are the
    tensor arguments in order, its results the tensors that the program computes. What `dynamic_shapes` names, of
    what the program was exported with, stays open within its bounds: nx_session_run() takes other sizes there.
    `gears`, {place among the tensor arguments: {dimension: sizes}}, names the only sizes that an open dimension takes;
    loading plans for all of them.

    Raises RuntimeError where a tensor argument is not used or nothing is computed, NotImplementedError where the
    program writes into its inputs or its state, leaves a number open, or has a cond or while_loop.
    """
    from ._dynamo.backends import graph_device
    from .autograd import no_grad
    from .export._capture import capture
    from .export._constraints import variables_of
    from .export._export import open_sizes_of
    from .export.dynamic_shapes import INFINITE
    from .utils import _pytree as pytree

    if not isinstance(ep, ExportedProgram):
        raise TypeError(
            f"The 'ep' parameter must be an instance of 'ExportedProgram', got '{type(ep).__name__}' instead."
        )
    if ep.example_inputs is None:
        raise RuntimeError(
            "model_file.save: the program has no example inputs, which say for what sizes it is compiled"
        )
    if any(isinstance(argument, _C.Graph) for node in ep.graph.nodes for argument in node.args):
        raise NotImplementedError("model_file.save: the graphs of a cond or while_loop go into no file")
    args, kwargs = ep.example_inputs
    module = _with_sizes_as_methods(ep.module(check_guards=False))
    open_sizes = open_sizes_of(module, args, kwargs, dynamic_shapes)
    if any(size.dim is None for size in open_sizes):
        raise NotImplementedError("model_file.save: a number among the arguments is a constant of the file")
    variables_of(open_sizes, pytree.tree_leaves((args, kwargs)))  # refuses examples that are out of bounds
    with no_grad():
        found = capture(module, args, kwargs, open_sizes)
    if found.graph is None:
        raise RuntimeError("model_file.save: nothing was computed with tensors")
    given = [leaf for leaf in pytree.tree_leaves(found.aliases) if isinstance(leaf, _C.TensorBase)]
    places = [next((k for k, tensor in enumerate(given) if tensor is value), None) for value in found.values]
    if sorted(place for place in places if place is not None) != list(range(len(given))):
        raise RuntimeError("model_file.save: every tensor argument must be used by the graph")
    wanted = [value.detach() if place is None else place for place, value in zip(places, found.values)]
    graph = found.graph.with_constants(wanted)
    for size in open_sizes:
        tensor = next(k for k, value in enumerate(given) if value is found.aliases[size.leaf])
        low, high = size.spec.min or 0, size.spec.max
        graph.open_size(tensor, size.dim, low, -1 if high is None or high >= INFINITE else high)
    for tensor, dims in (gears or {}).items():
        for dim, sizes in dims.items():
            graph.set_gears(tensor, dim, sorted(sizes))
    graph.save_model(str(f), graph_device(found.values))


def _with_sizes_as_methods(module):
    """The module with `x.size(dim)`, which capture follows, in the place of its calls of aten.sym_size."""
    from ._ops import ops

    for node in list(module.graph.nodes):
        if node.op == "call_function" and node.target is ops.aten.sym_size.int:
            with module.graph.inserting_before(node):
                node.replace_all_uses_with(module.graph.call_method("size", node.args))
            module.graph.erase_node(node)
    module.recompile()
    return module
