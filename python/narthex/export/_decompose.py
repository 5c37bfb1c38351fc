"""run_decompositions: the program as functional ATen operators. It is recorded below autograd for the example's sizes
and, where sizes are open, for others: what differs between these graphs is an expression of the symbols."""

import operator
from fractions import Fraction

from .. import _C
from .._functorch._graphs import Names, ScopedInterpreter, forward_of, retrace
from ..fx import GraphModule, Node
from ._sizes import Expr, Finder
from ._trace import Builder, Input, argument_of, drop_dead, packet_of
from .exported_program import ExportedProgram, ModuleCallEntry, Verifier
from .graph_signature import NEW_VALUE_OF, ExportGraphSignature, InputKind, OutputKind, OutputSpec

_POINTS = 8


def _inputs_of(program) -> list:
    """The program's placeholders as Inputs; arguments by what they are like."""
    found = []
    for node, spec in zip(program.graph.find_nodes(op="placeholder"), program.graph_signature.input_specs):
        value = program._value_of(spec) if spec.kind is not InputKind.USER_INPUT else node.meta["val"]
        if "symbol" in node.meta:
            value = node.meta["symbol"].value(program._hints)
        found.append(Input(spec.kind, node.name, value, spec.target, spec.persistent))
    return found


def _points_of(program) -> list:
    """Values of the symbols at which the program is recorded, those of the example first."""
    import random

    draw, points = random.Random(0), [dict(program._hints)]
    names = list(program._hints)
    for _ in range(4 * _POINTS if names else 0):
        point = {}
        for name in names:
            bounds = program.range_constraints.get(Expr.symbol(name))
            low = max(bounds.lower if bounds else 2, 2)
            high = min(bounds.upper if bounds else 2**31, max(low, program._hints[name]) + 61)
            point[name] = draw.randint(min(low, high), high)
        if point not in points and len(points) < _POINTS:
            points.append(point)
    return points


def _at(program, inputs: list, point: dict) -> list:
    """What stands at the placeholders for these values of the symbols."""
    from ._constraints import without_elements

    found = []
    for node, given in zip(program.graph.find_nodes(op="placeholder"), inputs):
        if "symbol" in node.meta:
            found.append(node.meta["symbol"].value(point))
        elif "sizes" in node.meta:
            size = [each.value(point) if isinstance(each, Expr) else each for each in node.meta["sizes"]]
            found.append(without_elements(given.value, size))
        else:
            found.append(given.value)
    return found


class _Recorded:
    """The functional graph for some values of the symbols. outputs: the results' places among the graph's, or what they
    are."""

    def __init__(self, program, inputs: list, point: dict, table: dict) -> None:
        values = _at(program, inputs, point)
        tensors = [k for k, value in enumerate(values) if isinstance(value, _C.TensorBase)]
        self.leaves: list = []
        places = {node: place for place, node in enumerate(program.graph.nodes, 1)}

        def call(*given):
            full = list(values)
            for k, tensor in zip(tensors, given):
                full[k] = tensor
            self.leaves = list(ScopedInterpreter(program.graph_module, places).run(*full))
            return [leaf for leaf in self.leaves if isinstance(leaf, _C.TensorBase)]

        names = tuple(inputs[k].name for k in tensors)
        graph = _C.record(call, tuple(_plain(values[k]) for k in tensors), names)
        aot = graph.aot(False)
        self.names = Names(aot, len(tensors))
        self.graph = retrace(forward_of(aot, self.names), table).graph
        self.tensors = tensors


def _plain(tensor):
    return tensor.detach() if tensor.requires_grad else tensor


def _record(program, inputs: list, table: dict) -> tuple:
    """(points, what was recorded there), as far as the graphs are of the same operators."""
    points, found = [], []
    for point in _points_of(program):
        try:
            made = _Recorded(program, inputs, point, table)
        except Exception as error:
            if not points or isinstance(error, MemoryError):
                raise
            continue  # a point outside of what the program holds for
        if found and _targets(made) != _targets(found[0]):
            raise NotImplementedError("run_decompositions: the operators are others for other sizes")
        points.append(point)
        found.append(made)
    return points, found


def _targets(made: _Recorded) -> list:
    return [str(node.target) for node in made.graph.nodes if node.op == "call_function"]


class _Merger:
    """One graph of several that differ in numbers alone."""

    def __init__(self, builder: Builder, points: list, found: list, origins: list) -> None:
        self.origins = origins  # nodes of the program, by scope
        self.builder, self.found, self.finder = builder, found, Finder(points)
        self.known: dict = {}

    def run(self) -> None:
        placeholders = [made.graph.find_nodes(op="placeholder") for made in self.found]
        for node, place in zip(placeholders[0], self.found[0].tensors):
            self.known[node] = self.builder.placeholders[place]
        for nodes in zip(*(list(made.graph.nodes) for made in self.found)):
            if nodes[0].op == "get_attr":
                raise NotImplementedError("run_decompositions: a constant that the decomposition makes")
            if nodes[0].op == "call_function":
                self.known[nodes[0]] = self._call(nodes)

    def _call(self, nodes: tuple) -> Node:
        first = nodes[0]
        args = self._merged([node.args for node in nodes])
        kwargs = self._merged([dict(node.kwargs) for node in nodes])
        name = getattr(first.target, "_packet", None) or packet_of(f"::{first.target.__name__}")
        made = self.builder.graph.create_node("call_function", first.target, args, kwargs, name)
        made.meta = {key: value for key, value in first.meta.items() if key in ("source", "stack_trace", "val")}
        origin = self.origins[first.meta["scope"] - 1] if "scope" in first.meta else None
        if origin is not None and "nn_module_stack" in origin.meta:
            made.meta["nn_module_stack"] = origin.meta["nn_module_stack"]
        sizes = self.finder.sizes([node.meta.get("val") for node in nodes])
        if sizes is not None:
            made.meta["sizes"] = sizes
        return made

    def _merged(self, column: list):
        """An argument that is `column[k]` in graph k."""
        first = column[0]
        if isinstance(first, Node):
            return self.known[first]
        if isinstance(first, (tuple, list)):
            return type(first)(self._merged(list(items)) for items in zip(*column, strict=True))
        if isinstance(first, dict):
            return {key: self._merged([each[key] for each in column]) for key in first}
        if type(first) is float and len(set(column)) > 1:
            return self._float(column)
        if type(first) is not int or len(set(column)) == 1:
            if any(type(each) is not type(first) or (each != first and each == each) for each in column):
                raise NotImplementedError("run_decompositions: the operators have other arguments for other sizes")
            return first
        expr = self.finder.express(column)
        return self.builder.number(expr) if expr is not None else self._asked(tuple(column))

    def _float(self, column: list) -> Node:
        """A quotient of sizes, as of the mean of n elements."""
        parts = [Fraction(value).limit_denominator(1 << 20) for value in column]
        if any(part.numerator / part.denominator != value for part, value in zip(parts, column)):
            raise NotImplementedError("run_decompositions: a float follows from sizes in a way that was not found")
        values = [self._merged([part.numerator for part in parts]), self._merged([part.denominator for part in parts])]
        made = self.builder.graph.create_node("call_function", operator.truediv, tuple(values), {}, "truediv")
        made.meta["val"] = column[0]
        return made

    def _asked(self, column: tuple):
        """A number that no expression was found for: the size of an earlier value."""
        for node, made in self.known.items():
            rows = [self._val_of(node, k) for k in range(len(self.found))]
            if not all(isinstance(val, _C.TensorBase) for val in rows):
                continue
            for dim, values in enumerate(zip(*(val.shape for val in rows))):
                if values == column:
                    from .._ops import ops

                    asked = self.builder.graph.create_node(
                        "call_function", ops.aten.sym_size.int, (made, dim), {}, "sym_size_int"
                    )
                    asked.meta["symbol"] = asked.meta["val"] = self.finder.unknown(column)
                    return asked
        raise NotImplementedError(
            "run_decompositions: a number follows from sizes in a way that no expression was found for"
        )

    def _val_of(self, node: Node, k: int):
        if not hasattr(self, "_places"):
            self._places = [list(made.graph.nodes) for made in self.found]
            self._at = {each: place for place, each in enumerate(self._places[0])}
        return self._places[k][self._at[node]].meta.get("val")


def decompose(program: ExportedProgram, table: dict) -> ExportedProgram:
    """ExportedProgram.run_decompositions."""
    inputs = _inputs_of(program)
    points, found = _record(program, inputs, table)
    sizes: dict = {}
    users = program.user_placeholders
    for leaf, node in enumerate(users):
        for dim, size in enumerate(node.meta.get("sizes", ())):
            if isinstance(size, Expr):
                sizes[leaf, dim] = size
        if "symbol" in node.meta:
            sizes[leaf, None] = node.meta["symbol"]
    builder = Builder(inputs, sizes)
    merger = _Merger(builder, points, found, list(program.graph.nodes))
    merger.run()
    specs = _finish(program, builder, merger, inputs)
    signature = ExportGraphSignature(builder.input_specs(), specs)
    made = GraphModule({}, builder.graph)
    entries = [program.module_call_graph[0]]
    entries += [ModuleCallEntry(each.fqn) for each in program.module_call_graph[1:] if "@" not in each.fqn]
    return ExportedProgram(
        made, builder.graph, signature, program.state_dict, program.range_constraints, entries,
        program.example_inputs, program.constants, verifiers=[Verifier], hints=program._hints,
    )  # fmt: skip


def _finish(program, builder: Builder, merger: _Merger, inputs: list) -> list:
    """Writes the node that returns; the specs of what it returns."""
    first = merger.found[0]
    results = [merger.known.get(node) for node in first.graph.output_node().args[0]]
    written = [inputs[first.tensors[place]] for place in first.names.mutated]
    tensors = iter(results[len(written) :])
    outputs = []
    columns = list(zip(*(made.leaves for made in merger.found)))
    for column in columns:
        if isinstance(column[0], _C.TensorBase):
            outputs.append(next(tensors))
        else:
            outputs.append(
                merger._merged([int(value) if type(value) is not bool and _whole(value) else value for value in column])
            )
    values = [*results[: len(written)], *outputs]
    builder.output(values)
    _drop_copies(builder.graph)
    arguments = [argument_of(value) for value in builder.graph.output_node().args[0]]
    specs = [
        OutputSpec(NEW_VALUE_OF.get(given.kind, OutputKind.BUFFER_MUTATION), argument, given.target or given.name)
        for given, argument in zip(written, arguments)
    ]
    kept = [spec for spec in program.graph_signature.output_specs]
    if program.n_written:
        return _again(kept, arguments, specs)
    drop_dead(builder.graph)
    return [
        *specs,
        *(OutputSpec(spec.kind, argument, spec.target) for spec, argument in zip(kept, arguments[len(specs) :])),
    ]


def _drop_copies(graph) -> None:
    """A copy over all of a value is what was copied, where it is like it."""
    for node in list(graph.nodes):
        if node.op == "call_function" and getattr(node.target, "__name__", "") == "copy.default":
            to, source = node.args[:2]
            a, b = (each.meta.get("val") if isinstance(each, Node) else None for each in (to, source))
            if a is not None and b is not None and (a.shape, a.dtype, a.device) == (b.shape, b.dtype, b.device):
                node.replace_all_uses_with(source)
                graph.erase_node(node)


def _again(kept: list, arguments: list, specs: list) -> list:
    """Of a program that was functional before: its results stay what they were."""
    return [OutputSpec(spec.kind, argument, spec.target) for spec, argument in zip(kept, arguments[len(specs) :])]


def _whole(value) -> bool:
    return isinstance(value, int)
