"""Model files for C programs: a program compiled by the engine, with its weights, which nx_session_load() of narthex.h
loads. Not a module of PyTorch's; torch.export.save writes PyTorch's archives."""

from . import _C
from .export import ExportedProgram

__all__ = ["save"]


def save(ep: ExportedProgram, f) -> None:
    """Compiles the program for the sizes of its example inputs and writes it to the path `f`. The file's inputs are the
    tensor arguments in order, its results the tensors that the program computes.

    Raises RuntimeError where a tensor argument is not used or nothing is computed, NotImplementedError where the
    program writes into its inputs or its state.
    """
    from ._dynamo.backends import graph_device
    from .autograd import no_grad
    from .export._capture import capture
    from .utils import _pytree as pytree

    if not isinstance(ep, ExportedProgram):
        raise TypeError(
            f"The 'ep' parameter must be an instance of 'ExportedProgram', got '{type(ep).__name__}' instead."
        )
    if ep.example_inputs is None:
        raise RuntimeError(
            "model_file.save: the program has no example inputs, which say for what sizes it is compiled"
        )
    args, kwargs = ep.example_inputs
    with no_grad():
        found = capture(ep.module(check_guards=False), args, kwargs, [])
    if found.graph is None:
        raise RuntimeError("model_file.save: nothing was computed with tensors")
    given = [leaf for leaf in pytree.tree_leaves(found.aliases) if isinstance(leaf, _C.TensorBase)]
    places = [next((k for k, tensor in enumerate(given) if tensor is value), None) for value in found.values]
    if sorted(place for place in places if place is not None) != list(range(len(given))):
        raise RuntimeError("model_file.save: every tensor argument must be used by the graph")
    wanted = [value.detach() if place is None else place for place, value in zip(places, found.values)]
    found.graph.with_constants(wanted).save_model(str(f), graph_device(found.values))
