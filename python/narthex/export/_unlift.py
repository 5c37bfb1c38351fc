"""The module of an exported program: its state as attributes, its arguments and its result as the original's."""

from .. import _C
from ..fx import Graph, GraphModule, Node
from ..fx._pytree import _PyTreeCodeGen, _PyTreeInfo
from ..fx.graph_module import _assign_attribute
from ..nn import Module
from ..utils import _pytree as pytree
from ._sizes import Expr
from .graph_signature import NEW_VALUES, ConstantArgument, InputKind


class GuardsFn(Module):
    """Raises AssertionError where an input is not what the program was traced for. checks: (text, place of the input,
    what is asked of it)."""

    def __init__(self, checks: list) -> None:
        super().__init__()
        self.checks = checks

    def forward(self, *inputs) -> None:
        known: dict = {}
        for text, place, holds in self.checks:
            if not holds(inputs[place], known):
                raise AssertionError(f"Guard failed: {text}")


def checks_of(program) -> list:
    checks: list = []
    where: dict = {}  # {symbol: what an error calls it}
    for place, (node, spec) in enumerate(zip(program.user_placeholders, _user_specs(program))):
        if isinstance(spec.arg, ConstantArgument):
            checks.append((f"{node.name} == {spec.arg.value!r}", place, _same(spec.arg.value)))
            continue
        if "symbol" in node.meta:
            _check_open(checks, place, node.name, node.meta["symbol"], lambda value: value, where, program)
            continue
        sizes = node.meta.get("sizes", node.meta["val"].shape)
        checks.append((f"len({node.name}.size()) == {len(sizes)}", place, _of_rank(len(sizes))))
        for dim, size in enumerate(sizes):
            text, read = f"{node.name}.size()[{dim}]", _size_of(dim)
            if isinstance(size, Expr):
                _check_open(checks, place, text, size, read, where, program)
            else:
                checks.append((f"{text} == {size}", place, _is_size(read, size)))
    return checks


def _user_specs(program) -> list:
    return [spec for spec in program.graph_signature.input_specs if spec.kind is InputKind.USER_INPUT]


def _same(value):
    return lambda given, known: type(given) is type(value) and given == value


def _of_rank(n: int):
    return lambda given, known: isinstance(given, _C.TensorBase) and given.ndim == n


def _size_of(dim: int):
    return lambda given: given.shape[dim]


def _is_size(read, size: int):
    return lambda given, known: read(given) == size


def _check_open(checks: list, place: int, text: str, expr: Expr, read, where: dict, program) -> None:
    names = {factor for factors in expr.terms for factor in factors}
    fresh = [name for name in names if isinstance(name, str) and name not in where]
    if len(names) == 1 and fresh:
        _check_first(checks, place, text, expr, fresh[0], read, where)
    elif all(name in where for name in names):
        shown = where[expr.name] if expr.name else str(expr)
        checks.append((f"{text} == {shown}", place, lambda given, known: read(given) == expr.value(known)))
    if expr.name and fresh:
        bounds = program.range_constraints.get(expr)
        if bounds is not None and bounds.lower > 2:
            checks.append((f"{text} >= {bounds.lower}", place, lambda given, known: read(given) >= bounds.lower))
        if bounds is not None and bounds.upper < 2**63 - 1:
            checks.append((f"{text} <= {bounds.upper}", place, lambda given, known: read(given) <= bounds.upper))


def _check_first(checks: list, place: int, text: str, expr: Expr, name: str, read, where: dict) -> None:
    """The first place of a symbol, times * symbol + plus, says what it is."""
    times, plus = expr.terms.get((name,), 0), expr.number
    if not times or expr != Expr.symbol(name) * times + plus:
        return
    where[name] = text

    def learn(given, known: dict) -> bool:
        whole, rest = divmod(read(given) - plus, times)
        known[name] = whole
        return rest == 0

    checks.append((f"{text} % {times} == {plus % times}", place, learn))


def lift_off(program) -> Graph:
    """The graph with attributes in place of the inputs that are state, and with writes in place of new values."""
    made, known, signature = Graph(), {}, program.graph_signature
    nodes = program.graph.find_nodes(op="placeholder")
    for node, spec in zip(nodes, signature.input_specs):
        if spec.kind is InputKind.USER_INPUT:
            known[node] = made.placeholder(node.name)
            known[node].name, known[node].meta = node.name, dict(node.meta)
    for node, spec in zip(nodes, signature.input_specs):
        if spec.kind is not InputKind.USER_INPUT:
            known[node] = made.create_node("get_attr", spec.target, name=spec.target.replace(".", "_"))
            known[node].meta = dict(node.meta)
    for node in program.graph.nodes:
        if node.op not in ("placeholder", "output"):
            known[node] = made.node_copy(node, lambda n: known[n])
    results = program.graph.output_node().args[0]
    of = lambda value: known[value] if isinstance(value, Node) else value  # noqa: E731
    _write_back(made, signature, nodes, results, known)
    kept = [of(value) for value, spec in zip(results, signature.output_specs) if spec.kind not in NEW_VALUES]
    made.output(tuple(kept))
    return made


def _write_back(made: Graph, signature, nodes: list, results, known: dict) -> None:
    from .._ops import ops

    targets = {spec.target: node for node, spec in zip(nodes, signature.input_specs) if spec.target is not None}
    targets.update({node.name: node for node in nodes})
    for value, spec in zip(results, signature.output_specs):
        if spec.kind in NEW_VALUES:
            made.call_function(ops.aten.copy_.default, (known[targets[spec.target]], known[value]))


def unlift(program, check_guards: bool) -> GraphModule:
    """ExportedProgram.module()."""
    signature = program.module_call_graph[0].signature
    graph = lift_off(program)
    apart = set(program.graph_signature.non_persistent_buffers) | set(program.graph_signature.lifted_tensor_constants)
    held = tensors = {**program.state_dict, **program.constants}
    checks = checks_of(program) if check_guards else []
    if checks:
        held = {**tensors, "_guards_fn": GuardsFn(checks)}
        first = next(node for node in graph.nodes if node.op not in ("placeholder", "get_attr"))
        with graph.inserting_before(first):
            graph.call_module("_guards_fn", tuple(node for node in graph.nodes if node.op == "placeholder"))
    names = signature.forward_arg_names or [node.name for node in graph.find_nodes(op="placeholder")]
    graph.set_codegen(_PyTreeCodeGen(_PyTreeInfo(list(names), signature.in_spec, signature.out_spec)))
    module = GraphModule(held, graph)
    for path, value in tensors.items():  # also those that the graph does not name
        _assign_attribute(value, module, path, path not in apart)
    module.__dict__.update(_in_spec=signature.in_spec, _out_spec=signature.out_spec)
    module.train = module.eval = _refuse_mode
    module.register_forward_pre_hook(_Nesting(signature.in_spec), with_kwargs=True)
    return module


def _refuse_mode(*args, **kwargs):
    raise NotImplementedError("Calling train() or eval() is not supported yet.")


class _Nesting:
    """A hook that refuses arguments which do not nest as those of the trace."""

    def __init__(self, spec) -> None:
        self.spec = spec

    def __call__(self, module, args: tuple, kwargs: dict) -> None:
        wanted = list(self.spec.children()[1].context)
        if set(wanted) != set(kwargs):
            raise ValueError(
                f"Ran into a kwarg keyword mismatch: Got the following keywords {list(kwargs)} but expected {wanted}"
            )
        _, found = pytree.tree_flatten((args, {key: kwargs[key] for key in self._ordered(kwargs)}))
        if found != self.spec:
            raise ValueError(
                f"Trying to flatten user inputs with exported input tree spec: \n{self.spec}\nbut actually got "
                f"inputs with tree "
                f"spec of: \n{found}.\nPlease check that the inputs have the same number and type of args and kwargs "
                f"as the ones "
                "you used when tracing."
            )

    def _ordered(self, kwargs: dict) -> list:
        known = [key for key in self.spec.children()[1].context if key in kwargs]
        return [*known, *(key for key in kwargs if key not in known)]


__all__ = ["GuardsFn", "checks_of", "lift_off", "unlift"]
