"""make_fx above autograd or with open sizes: as torch.export follows a function, which knows both."""

from ... import _C
from ...nn import Module, Parameter
from ...utils import _pytree as pytree
from ..graph import Graph
from ..graph_module import GraphModule


class _Of(Module):
    """A function as a module."""

    def __init__(self, f) -> None:
        super().__init__()
        self.__dict__["function"] = f

    def forward(self, *args):
        return self.function(*args)


def _program(f, args: tuple, is_symbolic: bool):
    from ...export import Dim, export

    if not all(isinstance(arg, _C.TensorBase) for arg in args):
        raise NotImplementedError("make_fx: with pre_dispatch or tracing_mode='symbolic' all arguments are tensors")
    if not is_symbolic:
        return export(_Of(f), args)
    sizes = tuple({dim: Dim.AUTO for dim in range(arg.dim()) if arg.size(dim) > 1} for arg in args)
    program = export(_Of(f), args, dynamic_shapes={"args": sizes})
    if any(sizes) and not program.range_constraints:
        raise NotImplementedError(
            "make_fx: tracing_mode='symbolic': no size of it may change, as where gradients are asked for; use 'fake'"
        )
    return program


def _attribute(value, constants: dict) -> str:
    kind = "_param_constant" if isinstance(value, Parameter) else "_tensor_constant"
    name = kind + str(sum(path.startswith(kind) for path in constants))
    constants[name] = value
    return name


def module_of(
    f, args: tuple, names: list, title: str, table: dict, is_symbolic: bool, pre_dispatch: bool
) -> GraphModule:
    """The graph of f(*args), whose inputs have these names; what f has of its own are attributes."""
    program = _program(f, args, is_symbolic)
    if not pre_dispatch:
        program = program.run_decompositions(table)
    elif table:
        raise NotImplementedError("make_fx: pre_dispatch: with a decomposition_table it is not there")
    specs, given = program.graph_signature.input_specs, iter(names)
    held = {spec.arg.name: spec.target for spec in specs if spec.kind.name != "USER_INPUT"}
    made, known, constants, values = Graph(), {}, {}, {**program.state_dict, **program.constants}

    def new(node):
        if node not in known:
            known[node] = made.get_attr(_attribute(values[held[node.name]], constants))
            known[node].meta = dict(node.meta)
        return known[node]

    for node in program.graph.nodes:
        if node.op == "placeholder" and node.name not in held:
            known[node] = made.placeholder(next(given))
            known[node].meta = dict(node.meta)
        elif node.op not in ("placeholder", "output"):
            known[node] = made.node_copy(node, new)
    if program.graph_signature.user_inputs_to_mutate:
        raise NotImplementedError(
            "make_fx: tracing_mode='symbolic': it writes into its arguments; add pre_dispatch=True"
        )
    results = [new(leaf) if hasattr(leaf, "op") else leaf for leaf in program.graph.output_node().args[0]]
    made.output(pytree.tree_unflatten(results, program.call_spec.out_spec))
    return GraphModule(constants, made, title)
