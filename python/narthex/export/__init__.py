"""torch.export: a function or module captured whole, to be run again or written as a model file for C programs."""

from .. import _C
from .._absent import getter


class ExportedProgram:
    """One graph without breaks. The tensors that it was given are its inputs, weights and all others constants."""

    def __init__(self, graph, device, function) -> None:
        self._graph, self._device, self._function = graph, device, function

    @property
    def graph_module(self):
        """The graph as a `torch.fx.GraphModule`: called with the inputs it returns a tuple of tensors."""
        from ..fx import GraphModule

        return GraphModule(self._graph)

    @property
    def graph(self):
        return self.graph_module.graph

    def module(self):
        """What was exported, as a callable with its own arguments and results."""
        return self._function

    def __str__(self) -> str:
        return self._graph.python()


def _tensors_of(value):
    """The tensors in nested tuples, lists and dicts."""
    if isinstance(value, _C.TensorBase):
        yield value
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from _tensors_of(part)
    elif isinstance(value, dict):
        yield from _tensors_of(list(value.values()))


def export(mod, args, kwargs=None, *, dynamic_shapes=None, strict=True, preserve_module_call_signature=()):
    """Captures mod(*args, **kwargs) as one graph for inputs of these shapes, without gradients.

    Raises what torch.compile(fullgraph=True) raises where the graph would break; RuntimeError where a tensor argument
    is not used by the graph; NotImplementedError for dynamic_shapes. A graph that writes into its inputs is not saved.
    """
    from .._dynamo.backends import graph_device
    from ..autograd import no_grad

    if dynamic_shapes is not None:
        raise NotImplementedError("torch.export.export: dynamic_shapes: a model file holds one shape; leave it out")
    if preserve_module_call_signature:
        raise NotImplementedError("torch.export.export: preserve_module_call_signature is not there")
    if not isinstance(args, tuple):
        raise TypeError(f"Expecting `args` to be a tuple of example positional inputs, got {type(args)}")
    taken = []

    def backend(graph, example_inputs):
        def run(*values):
            taken.append((graph, values))
            return graph(*values)

        return run

    function = mod.forward if hasattr(mod, "forward") else mod
    captured = _C.CapturedFunction(function, backend, True, False, "export")
    with no_grad():
        captured(*args, **(kwargs or {}))
    if len(taken) != 1:
        raise RuntimeError("torch.export.export: nothing was computed with tensors")
    (graph, values) = taken[0]
    given = list(_tensors_of((args, kwargs or {})))
    places = [[k for k, tensor in enumerate(given) if tensor is value] for value in values]
    if sorted(k for place in places for k in place) != list(range(len(given))) or max(map(len, places)) > 1:
        raise RuntimeError("torch.export.export: every tensor argument must be used by the graph, and stand in it once")
    wanted = [place[0] if place else value.detach() for place, value in zip(places, values)]
    return ExportedProgram(graph.with_constants(wanted), graph_device(values), captured)


def save(ep, f, *, extra_files=None, opset_version=None) -> None:
    """Compiles the graph with the engine and writes it as a model file, to be loaded by nx_session_load() of narthex.h.

    Its inputs are the graph's placeholders in order, its results the tensors that the exported function returns.
    """
    if extra_files or opset_version:
        raise NotImplementedError("torch.export.save: extra_files and opset_version are not there")
    if not isinstance(ep, ExportedProgram):
        raise TypeError(
            f"The 'ep' parameter must be an instance of 'ExportedProgram', got '{type(ep).__name__}' instead."
        )
    ep._graph.save_model(str(f), ep._device)


def load(f, **others):
    """Not there: raises NotImplementedError."""
    raise NotImplementedError("torch.export.load: model files are run from C: nx_session_load() in narthex.h")


__getattr__ = getter("torch.export")
