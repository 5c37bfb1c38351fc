"""make_fx: what a function of Python calls, as a graph of ATen operators."""

import inspect
from collections.abc import Callable

from ... import _C
from ...nn import Parameter
from ...utils import _pytree as pytree
from .._of_schema import numbers_as_tensors
from .._pytree import _PyTreeCodeGen, _PyTreeInfo
from ..graph import Graph
from ..graph_module import GraphModule
from ..passes.shape_prop import note_tensors

__all__ = ["ProxyTorchDispatchMode", "get_isolated_graphmodule", "get_proxy_mode", "is_fx_tracing", "make_fx"]


class ProxyTorchDispatchMode:
    """A recording of make_fx that is under way."""

    def __init__(self, tracing_mode: str) -> None:
        self.tracing_mode = tracing_mode


_active: list[ProxyTorchDispatchMode] = []


def is_fx_tracing() -> bool:
    """Whether this is inside make_fx."""
    return bool(_active)


def get_proxy_mode() -> ProxyTorchDispatchMode | None:
    """The innermost make_fx that this is inside of."""
    return _active[-1] if _active else None


def _names_of(f, n: int) -> list:
    """The names of the first `n` arguments of f."""
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names: list = []
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            break
        names.append(parameter.name)
    names = names[:n]
    return [*names, *(f"arg{k}" for k in range(len(names), n))]


def _record(f, args: list, names: list, tracing_mode: str) -> tuple:
    """The C graph of f(*args), and what f returned, with the number of the graph's result in place of each tensor."""
    places = [k for k, arg in enumerate(args) if isinstance(arg, _C.TensorBase)]
    shape: list = []

    def run(*fakes):
        full = list(args)
        for place, fake in zip(places, fakes):
            full[place] = fake
        leaves, spec = pytree.tree_flatten(f(*full))
        tensors = [leaf for leaf in leaves if isinstance(leaf, _C.TensorBase)]
        numbers = iter(range(len(tensors)))
        kept = [_Result(next(numbers)) if isinstance(leaf, _C.TensorBase) else leaf for leaf in leaves]
        shape.append(pytree.tree_unflatten(kept, spec))
        return tensors

    _active.append(ProxyTorchDispatchMode(tracing_mode))
    try:
        graph = _C.record(run, tuple(args[k] for k in places), tuple(names[k] for k in places))
    finally:
        _active.pop()
    return graph, shape[0]


class _Result:
    """Stands for a result of the graph, by number."""

    def __init__(self, number: int) -> None:
        self.number = number


def _module(graph: _C.Graph, result, args: list, names: list, title: str) -> GraphModule:
    source = GraphModule(graph)
    made, known, constants = Graph(), {}, {}
    given = {node.target: node for node in source.graph.find_nodes(op="placeholder")}
    for name, arg in zip(names, args):
        new = made.placeholder(name)
        if name in given:
            known[given[name]] = new
            new.meta = dict(given[name].meta)
        else:
            new.meta["val"] = arg
    for node in source.graph.nodes:
        if node.op == "get_attr":
            value = getattr(source, node.target)
            kind = "_param_constant" if isinstance(value, Parameter) else "_tensor_constant"
            name = kind + str(sum(path.startswith(kind) for path in constants))
            constants[name] = value
            known[node] = made.get_attr(name)
            known[node].meta = dict(node.meta)
        elif node not in known and node.op != "output":
            known[node] = made.node_copy(node, lambda n: known[n])
    results = source.graph.output_node().args[0]
    of = lambda leaf: known[results[leaf.number]] if isinstance(leaf, _Result) else leaf  # noqa: E731
    made.output(pytree.tree_map(of, result))
    numbers_as_tensors(made)
    note_tensors(made)
    return GraphModule(constants, made, title)


def _title_of(f) -> str:
    title = getattr(f, "__name__", type(f).__name__)
    return title if title.isidentifier() else "GraphModule"


def make_fx(
    f: Callable,
    decomposition_table=None,
    tracing_mode: str = "real",
    _allow_non_fake_inputs: bool = False,
    *,
    pre_dispatch: bool = False,
    record_module_stack: bool = False,
    _allow_fake_constant: bool = False,
    _error_on_data_dependent_ops: bool = True,
    record_stack_traces: bool = False,
    proxy_module_inputs: bool = False,
    _disable_torch_fn_metadata_mode: bool = False,
):
    """make_fx(f)(*args): a GraphModule of the ATen operators that f calls with them, those of its backward calls among
    these, with writes as they are. decomposition_table: {operator: function} of what is to be taken to pieces.

    Unlike PyTorch, f is not run on the elements ("real" is "fake"), so that what reads one raises. Where arguments
    nest, the graph has an input for each leaf, and its forward takes and returns what f does. With "symbolic" sizes
    above 1 are nodes, and writes become new values; with pre_dispatch composed operators stay whole. f is followed as
    torch.export does it then, its arguments are tensors, and no node tells where gradients are off.
    """
    if tracing_mode not in ("real", "fake", "symbolic"):
        raise AssertionError(f"tracing_mode should be one of real, fake, symbolic, got {tracing_mode!r}")

    def wrapped(*args):
        from ..._functorch._graphs import retrace

        leaves, spec = pytree.tree_flatten(args)
        called, nests = _names_of(f, len(args)), any(not child.is_leaf() for child in spec.children())
        names = [f"{name}_{k + 1}" for name, child in zip(called, spec.children()) for k in range(child.num_leaves)]
        table, is_symbolic = dict(decomposition_table or {}), tracing_mode == "symbolic"
        if is_symbolic or pre_dispatch:
            from ._by_export import module_of

            _active.append(ProxyTorchDispatchMode(tracing_mode))
            try:
                return module_of(f, args, names, _title_of(f), table, is_symbolic, pre_dispatch)
            finally:
                _active.pop()
        graph, result = _record(lambda *flat: f(*pytree.tree_unflatten(flat, spec)), leaves, names, tracing_mode)
        flat, out_spec = pytree.tree_flatten(result) if nests else (result, None)
        module = retrace(_module(graph, flat, leaves, names, _title_of(f)), table)
        if nests:
            module.graph.set_codegen(_PyTreeCodeGen(_PyTreeInfo(called, spec, out_spec)))
            module.recompile()
        return module

    return wrapped


def get_isolated_graphmodule(func, args, kwargs, tracing_mode="real", decomposition_table=None):
    """make_fx of func(*args, **kwargs)."""
    return make_fx(lambda *given: func(*given, **kwargs), decomposition_table, tracing_mode)(*args)
