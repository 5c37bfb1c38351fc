"""From a captured graph to an exported program: parameters, buffers, constants and arguments become placeholders, calls
become calls of torch.ops, sizes that are open expressions of symbols."""

import inspect
import operator
import re
from dataclasses import dataclass

from .. import _C
from .._ops import ops
from ..fx import Graph, GraphModule, Node
from ..fx.node import map_arg
from ..utils import _pytree as pytree
from ._capture import Captured
from ._constraints import Solution
from ._sizes import Expr, Finder
from .exported_program import ModuleCallSignature
from .graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymIntArgument,
    TensorArgument,
)


@dataclass
class Input:
    """One placeholder: what it is, its name, its value, its path in the module."""

    kind: InputKind
    name: str
    value: object
    target: str | None = None
    persistent: bool | None = None


def overload(name: str):
    """torch.ops.aten.add.Tensor of "aten::add.Tensor"."""
    space, _, rest = name.partition("::")
    packet, _, which = rest.partition(".")
    return getattr(getattr(getattr(ops, space), packet), which or "default")


def packet_of(name: str) -> str:
    """add of aten::add.Tensor: what nodes are named after."""
    return name.partition("::")[2].partition(".")[0]


def clean(text: str) -> str:
    """A name for a placeholder."""
    return re.sub(r"[^a-zA-Z0-9]+", "_", text).lower()


# ---- names of arguments
def argument_names(mod, args: tuple, kwargs: dict) -> list:
    """forward's parameters as a call names them: those of `*args` are args_0, args_1."""
    parameters = inspect.signature(mod.forward).parameters
    names: list = []
    for name, parameter in parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{name}_{k}" for k in range(len(args) - len(names))]
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(name)
    return [*names[: len(args)], *kwargs]


def _key_text(key) -> str:
    for attribute in ("idx", "key", "name"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)


def leaf_names(args: tuple, kwargs: dict, names: list) -> list:
    """A name for each leaf of (args, kwargs): a["u"] is a_u."""
    found = []
    for path, _ in pytree.tree_flatten_with_path((args, kwargs))[0]:
        inside, key = path[0].idx == 0, path[1]
        first = names[key.idx] if inside else str(key.key)
        found.append(clean("_".join([first, *map(_key_text, path[2:])])))
    return found


# ---- what a module holds
def _constants_of(mod) -> dict:
    """Tensors that are plain attributes of submodules: {id: path}."""
    found = {}
    for path, module in mod.named_modules():
        for name, value in module.__dict__.items():
            if isinstance(value, _C.TensorBase):
                found.setdefault(id(value), f"{path}.{name}" if path else name)
    return found


def state_inputs(mod) -> list:
    """The module's parameters and buffers as Inputs."""
    found = [
        Input(InputKind.PARAMETER, f"p_{clean(path)}", value, path)
        for path, value in mod.named_parameters(remove_duplicate=False)
    ]
    for path, value in mod.named_buffers(remove_duplicate=False):
        owner, _, name = path.rpartition(".")
        persistent = name not in mod.get_submodule(owner)._non_persistent_buffers_set
        found.append(Input(InputKind.BUFFER, f"b_{clean(path)}", value, path, persistent))
    return found


class Builder:
    """Builds the graph of an exported program. nodes: {id of a tensor: node}, for those at placeholders."""

    def __init__(self, inputs: list, sizes: dict) -> None:
        self.graph, self.inputs = Graph(), inputs
        self.placeholders: list = []
        self.nodes: dict = {}
        self.symbols: dict = {}  # {Expr: node}, of those that were asked for
        self.places: dict = {}  # {symbol: (placeholder, dim)}
        leaf = 0
        for given in inputs:
            node = self.graph.placeholder(given.name)
            node.name = given.name
            self.placeholders.append(node)
            node.meta["val"] = _val(given.value)
            if given.kind is InputKind.USER_INPUT:
                self._mark_sizes(node, given.value, sizes, leaf)
                leaf += 1
            if isinstance(given.value, _C.TensorBase):
                self.nodes.setdefault(id(given.value), node)
        self.first = None

    def _mark_sizes(self, node: Node, value, sizes: dict, leaf: int) -> None:
        if (leaf, None) in sizes:
            node.meta["symbol"] = node.meta["val"] = sizes[leaf, None]
            self.symbols[sizes[leaf, None]] = node
        if not isinstance(value, _C.TensorBase):
            return
        shape = [sizes.get((leaf, dim), size) for dim, size in enumerate(value.shape)]
        if any(isinstance(size, Expr) for size in shape):
            node.meta["sizes"] = shape
        for dim, size in enumerate(shape):
            if isinstance(size, Expr):
                self.places.setdefault(size, (node, dim))

    # ---- numbers
    def number(self, expr):
        """A node, or a number, for an expression."""
        if not isinstance(expr, Expr):
            return expr
        if expr.is_number:
            return expr.number
        if expr not in self.symbols:
            made = self._asked if expr in self.places else self._root if expr.name else self._computed
            self.symbols[expr] = made(expr)
        return self.symbols[expr]

    def _asked(self, expr: Expr) -> Node:
        """The size itself, at the beginning of the graph."""
        node, dim = self.places[expr]
        with self.graph.inserting_after(self.first or self.placeholders[-1]):
            made = self._call(ops.aten.sym_size.int, (node, dim), "sym_size_int")
        made.meta["symbol"] = made.meta["val"] = expr
        self.first = made
        return made

    def _computed(self, expr: Expr) -> Node:
        total = None
        for factors, times in expr.sorted_terms():
            part = None
            for factor in factors:
                value = self.number(Expr({(factor,): 1})) if isinstance(factor, str) else self._quotient(factor)
                part = value if part is None else self._apply(operator.mul, part, value)
            if part is None or times != 1:
                part = times if part is None else self._apply(operator.mul, part, times)
            total = part if total is None else self._apply(operator.add, total, part)
        return total

    def _quotient(self, factor) -> Node:
        sign = operator.floordiv if factor.sign == "//" else operator.mod
        return self._apply(sign, self.number(factor.top), self.number(factor.bottom))

    def _root(self, symbol: Expr) -> Node:
        """A symbol that is no size itself follows from one that is times * symbol + plus."""
        for expr in self.places:
            times, plus = expr.terms.get((symbol.name,)), expr.number
            if times and expr == symbol * times + plus:
                node = self.number(expr)
                node = self._apply(operator.sub, node, plus) if plus else node
                return self._apply(operator.floordiv, node, times) if times != 1 else node
        raise NotImplementedError(f"torch.export: a size that follows from {symbol} alone")

    def _apply(self, sign, a, b) -> Node:
        """A node for a number that is computed of two."""
        made = self._call(sign, (a, b), sign.__name__)
        made.meta["symbol"] = made.meta["val"] = sign(
            *(each.meta["symbol"] if isinstance(each, Node) else each for each in (a, b))
        )
        return made

    def _call(self, target, args: tuple, name: str) -> Node:
        return self.graph.create_node("call_function", target, args, {}, name)

    # ---- the end
    def output(self, outputs: list) -> list:
        """The node that returns; outputs: nodes, Exprs and constants. The OutputSpecs' arguments."""
        values = [self.number(value) for value in outputs]
        self.graph.output(tuple(values))
        return [argument_of(value) for value in values]

    def input_specs(self) -> list:
        specs = []
        for node, given in zip(self.placeholders, self.inputs):
            if isinstance(given.value, _C.TensorBase):
                arg = TensorArgument(node.name)
            else:
                arg = SymIntArgument(node.name) if "symbol" in node.meta else ConstantArgument(node.name, given.value)
            specs.append(InputSpec(given.kind, arg, given.target, given.persistent))
        return specs


def _val(value):
    return _C.fake_like(value) if isinstance(value, _C.TensorBase) else value


def argument_of(value):
    """What a signature says of a node or a constant."""
    if not isinstance(value, Node):
        return ConstantArgument("", value)
    return (SymIntArgument if "symbol" in value.meta else TensorArgument)(value.name)


# ---- sizes of what is computed
class Shapes:
    """The sizes of each call's results as expressions, from the graph fitted at several points."""

    def __init__(self, graphs: list, finder: Finder) -> None:
        self.finder = finder
        self.rows = list(zip(*([n for n in graph.nodes if n.operator is not None] for graph in graphs)))

    def of(self, k: int, node: Node) -> None:
        """Marks the node of the k-th call."""
        vals = [row.meta.get("val") for row in self.rows[k]]
        several = isinstance(vals[0], tuple)
        node.meta["val"] = vals[0]
        columns = list(zip(*vals)) if several else [tuple(vals)]
        found = [self.finder.sizes(column) for column in columns]
        if any(found):
            node.meta["sizes"] = found if several else found[0]


class _Copier:
    """Copies a captured graph's calls into a Builder."""

    def __init__(self, captured: Captured, solution: Solution, builder: Builder) -> None:
        self.builder, self.source = builder, Graph(captured.graph)
        self.finder = Finder(solution.points)
        self.shapes = Shapes([graph for graph, _ in solution.fits], self.finder)
        self.known = {}  # nodes of the source -> nodes
        for node, value in zip(self.source.find_nodes(op="placeholder"), captured.values):
            self.known[node] = builder.nodes.get(id(value))  # None: it stands for a number
        columns = list(zip(*(numbers for _, numbers in solution.fits)))
        numbers = [
            n for n in self.source.nodes if n.op == "call_function" and n._c is not None and n._c.operator is None
        ]
        self.numbers = {node: column for node, column in zip(numbers, columns)}
        self.n_calls, self.parts = 0, {}
        self.stacks = captured.calls.stacks()

    def run(self) -> None:
        for node in self.source.nodes:
            if node.op == "get_attr":
                self.known[node] = self.builder.nodes[id(node._c.value)]
            elif node.op in ("call_function", "call_method") and node not in self.numbers:
                self.known[node] = self._part(node) if node._c is None else self._call(node)

    def _part(self, node: Node) -> Node:
        """node[k] of a call that has several results: they all stand behind it."""
        return self.parts[self.known[node.args[0]], node.args[1]]

    def _make_part(self, whole: Node, which: int) -> Node:
        made = self.builder.graph.create_node("call_function", operator.getitem, (whole, which), {}, "getitem")
        made.meta = {key: value for key, value in whole.meta.items() if key not in ("val", "sizes")}
        made.meta["val"] = whole.meta["val"][which]
        if whole.meta.get("sizes") and whole.meta["sizes"][which]:
            made.meta["sizes"] = whole.meta["sizes"][which]
        return made

    def _call(self, node: Node) -> Node:
        name = node._c.operator
        args, kwargs = map_arg(node.args, self._argument), map_arg(node.kwargs, self._argument)
        made = self.builder.graph.create_node("call_function", overload(name), args, dict(kwargs), packet_of(name))
        made.meta = {key: value for key, value in node.meta.items() if key in ("source", "stack_trace")}
        made.meta["nn_module_stack"] = dict(self.stacks[node.meta.get("scope", 0)])
        self.shapes.of(self.n_calls, made)
        self.n_calls += 1
        val = made.meta["val"]
        for which in range(len(val)) if isinstance(val, tuple) else ():
            self.parts[made, which] = self._make_part(made, which)
        return made

    def _argument(self, node: Node):
        if node not in self.numbers:
            return self.known[node]
        values = self.numbers[node]
        expr = self.finder.express(values)
        if expr is not None:
            return self.builder.number(expr)
        return self._copied_number(node, map_arg(node.args, self._argument))

    def _copied_number(self, node: Node, args: tuple) -> Node:
        """A number for which there is no expression, as the program computed it."""
        target = ops.aten.sym_size.int if node._c.target == "torch.ops.aten.sym_size.int" else node.target
        made = self.builder.graph.create_node("call_function", target, args, {}, node.name)
        made.meta["symbol"] = made.meta["val"] = self.finder.unknown(self.numbers[node])
        return made


def _unique(inputs: list) -> None:
    taken: set = set()
    for given in inputs:
        name, k = given.name, 1
        while given.name in taken:
            given.name, k = f"{name}_{k}", k + 1
        taken.add(given.name)


@dataclass
class Traced:
    """What an exported program is made of."""

    graph_module: GraphModule
    signature: ExportGraphSignature
    inputs: list
    ranges: dict
    hints: dict
    signatures: dict  # {path: ModuleCallSignature} of submodules' calls that were kept


def trace(mod, captured: Captured, solution: Solution, names: list) -> Traced:
    """The exported graph of what was captured; names: of the leaves of the arguments."""
    state = state_inputs(mod)
    known = {id(given.value): given for given in state}
    users = [
        Input(InputKind.USER_INPUT, name, leaf.shape[0] if k in captured.numbers else leaf)
        for k, (name, leaf) in enumerate(zip(names, captured.aliases))
    ]
    known.update((id(leaf), given) for leaf, given in zip(captured.aliases, users))
    attributes = _get_attributes(captured)
    constants = _constants(captured, attributes, mod, known)
    inputs = [*state, *constants, *users]
    _unique(inputs)
    builder = Builder(inputs, solution.sizes)
    of_results: dict = {}
    if captured.graph is not None:
        copier = _Copier(captured, solution, builder)
        copier.run()
        results = copier.source.output_node().args[0]
        of_results = {id(fake): copier.known[node] for fake, node in zip(captured.results, results) if node is not None}
    nodes = {**builder.nodes, **of_results}
    outputs = _outputs(captured, solution, nodes)
    _write_assigned(captured, builder, {given.target: given for given in state}, nodes)
    arguments = builder.output(outputs)
    specs = [OutputSpec(OutputKind.USER_OUTPUT, argument, None) for argument in arguments]
    gm = GraphModule({}, builder.graph)
    signature = ExportGraphSignature(builder.input_specs(), specs)
    return Traced(gm, signature, inputs, solution.ranges, solution.hints, _signatures(captured.calls, nodes))


def _signatures(calls, nodes: dict) -> dict:
    """{path: how it was called} of the calls that were kept; of a second call the path is a@1."""
    paths = calls.paths()
    return {paths[number]: _signature(paths[number], given, result, nodes) for number, *given, result in calls.kept}


def _signature(path: str, given: list, result, nodes: dict) -> ModuleCallSignature:
    def argument(leaf):
        if isinstance(leaf, _C.TensorBase):
            return argument_of(nodes[id(leaf)])
        if leaf is None or type(leaf) in (bool, int, float, str):
            return ConstantArgument("", leaf)
        raise NotImplementedError(f"torch.export: {path} is called with a {type(leaf)}, which no signature keeps")

    inputs, in_spec = pytree.tree_flatten(tuple(given))
    outputs, out_spec = pytree.tree_flatten(result)
    return ModuleCallSignature(list(map(argument, inputs)), list(map(argument, outputs)), in_spec, out_spec)


def _get_attributes(captured: Captured) -> list:
    if captured.graph is None:
        return []
    return [node.value for node in captured.graph.nodes if node.op == "get_attr"]


def _constants(captured: Captured, attributes: list, mod, known: dict) -> list:
    """Inputs for the tensors that the graph reads, or the call returns, and that are neither state nor arguments."""
    paths, found = _constants_of(mod), []
    made = set(map(id, captured.results))
    returned = [leaf for leaf in captured.leaves if isinstance(leaf, _C.TensorBase)]
    for value in [*captured.values, *attributes, *returned]:
        if id(value) in known or id(value) in made:
            continue
        lifted = sum(given.target.startswith("lifted_tensor_") for given in found)
        path = paths.get(id(value), f"lifted_tensor_{lifted}")
        known[id(value)] = given = Input(InputKind.CONSTANT_TENSOR, f"c_{clean(path)}", value, path)
        found.append(given)
    return found


def _outputs(captured: Captured, solution: Solution, nodes: dict) -> list:
    """For each leaf that the call returned a node, an Expr or a constant."""
    found: list = []
    for leaf in captured.leaves:
        if isinstance(leaf, _C.TensorBase):
            found.append(nodes[id(leaf)])
        elif leaf is None or isinstance(leaf, (bool, int, float, str)):
            found.append(leaf)
        else:
            from .._dynamo.exc import UserError, UserErrorType

            raise UserError(
                UserErrorType.INVALID_OUTPUT,
                f"It looks like one of the outputs with type `{type(leaf)}` is not supported or pytree-flattenable. \n"
                "Exported graphs outputs can only contain the following supported types: tensors, numbers, str, None",
            )
        if type(leaf) is int and any(variable.moves for variable in solution.moving):
            found[-1] = ...
    if ... in found:
        _numbers_of(captured, solution, found)
    return found


def _numbers_of(captured: Captured, solution: Solution, found: list) -> None:
    """Puts expressions where the call returns whole numbers: the call is made at each point."""
    import narthex

    def zeros(tensor, size):
        made = narthex.zeros(size, dtype=tensor.dtype, device=tensor.device)
        return made.requires_grad_() if tensor.requires_grad else made

    rows = [captured.leaves]
    for point in solution.where[1:]:
        rows.append(captured.again(solution.question.leaves_at(point, zeros)))
    finder = Finder(solution.points)
    for k, column in enumerate(zip(*rows)):
        if found[k] is ...:
            expr = finder.express(map(int, column))
            if expr is None:
                raise NotImplementedError(
                    f"torch.export: result {k} follows from sizes in a way that no expression was found for"
                )
            found[k] = expr


def _write_assigned(captured: Captured, builder: Builder, state: dict, nodes: dict) -> None:
    """A buffer that was set anew is written at the end."""
    for path, value in captured.assigned.items():
        target = builder.nodes[id(state[path].value)]
        made = builder.graph.create_node("call_function", ops.aten.copy_.default, (target, nodes[id(value)]))
        made.meta["val"] = target.meta["val"]


_WRITE_UNSEEN = {
    "batch_norm",
    "native_batch_norm",
    "_native_batch_norm_legit",
    "instance_norm",
    "_assert_async",
    "_assert_scalar",
}


def drop_dead(graph: Graph) -> None:
    """Takes out calls without users that do nothing else."""

    def does_more(node: Node) -> bool:
        return node.is_impure() or getattr(node.target, "__name__", "").partition(".")[0] in _WRITE_UNSEEN

    graph.eliminate_dead_code(does_more)
