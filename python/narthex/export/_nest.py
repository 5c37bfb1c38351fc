"""Builds the modules of torch.export.unflatten.

In: a program whose nodes say in which calls of modules they are (meta["nn_module_stack"]). Out: a module for each call,
with a graph of its own. A call stands in the module that made it; one of a module that is not below that one's path has
no module, its nodes are the caller's."""

import operator

from ..fx import Graph, Node
from ..fx._pytree import _PyTreeCodeGen, _PyTreeInfo
from ..nn import Module, Parameter
from ..utils import _pytree as pytree
from ._unlift import lift_off
from .graph_signature import ConstantArgument
from .unflatten import InterpreterModule, InterpreterModuleDispatcher


class _Call:
    """One call of a module: nodes of the whole graph and calls, in order. times: how often it was called before."""

    def __init__(self, path: str, kind: str | None, keys: tuple, times: int = 0) -> None:
        self.path, self.kind, self.keys, self.times = path, kind, keys, times
        self.parts: list = []

    @property
    def fqn(self) -> str:
        """Its path as entries of a program name it."""
        return f"{self.path}@{self.times}" if self.times else self.path

    def nodes(self):
        """The nodes in it and in what it calls."""
        for part in self.parts:
            if isinstance(part, _Call):
                yield from part.nodes()
            else:
                yield part


def _below(path: str, outer: str) -> str | None:
    """What comes behind `outer` in a path; None: it is not below it."""
    if not outer:
        return path
    return path[len(outer) + 1 :] if path.startswith(f"{outer}.") else None


def _rows_of(node: Node) -> list:
    """(key, path, class) of the calls that a node is in, each path below the one before."""
    found, outer = [], ""
    for key, (path, kind) in node.meta.get("nn_module_stack", {}).items():
        if path and _below(path, outer):
            found.append((key, path, kind))
            outer = path
    return found


def _calls_of(graph: Graph) -> _Call:
    """The root with all its calls."""
    root, times = _Call("", None, ()), {}
    open_calls = [root]
    for node in graph.nodes:
        if node.op not in ("call_function", "call_module"):
            continue
        rows = _rows_of(node)
        while open_calls[-1].keys != tuple(key for key, *_ in rows)[: len(open_calls) - 1]:
            open_calls.pop()
        for key, path, kind in rows[len(open_calls) - 1 :]:
            outer = open_calls[-1]
            made = _Call(path, kind, (*outer.keys, key), times.get(path, 0))
            times[path] = made.times + 1
            outer.parts.append(made)
            open_calls.append(made)
        open_calls[-1].parts.append(node)
    return root


class _Frame:
    """The graph of one call while it is built. known: {node of the whole graph: node here}; taken: nodes of the whole
    graph that it is given."""

    def __init__(self, whole: "_Whole", call: _Call, module: Module) -> None:
        self.whole, self.call, self.module = whole, call, module
        self.graph, self.known, self.taken = Graph(), {}, []
        self.n_given, self.n_specs = 0, 0
        self.signature = whole.signatures.get(call.fqn)
        for argument in self.signature.inputs if self.signature else ():
            node = None if isinstance(argument, ConstantArgument) else whole.names[argument.name]
            made = self._placeholder(node.name if node else f"constant_{self.n_given}")
            self.known.setdefault(node, made)

    def _at_front(self, op: str, target: str, name: str) -> Node:
        """A placeholder, or an attribute behind all placeholders."""
        before = ("placeholder", op)
        first = next((node for node in self.graph.nodes if node.op not in before), None)
        if first is None:
            return self.graph.create_node(op, target, name=name)
        with self.graph.inserting_before(first):
            return self.graph.create_node(op, target, name=name)

    def _placeholder(self, name: str) -> Node:
        self.n_given += 1
        return self._at_front("placeholder", name, name)

    def value(self, node: Node) -> Node:
        """What stands for a node of the whole graph here."""
        if node in self.known:
            return self.known[node]
        state = _below(node.target, self.call.path) if node.op == "get_attr" else None
        if state is not None:
            made = self._at_front("get_attr", state, state.replace(".", "_"))
        elif self.signature is not None:
            raise RuntimeError(
                f"torch.export.unflatten: {self.call.fqn} reads {node.name}, which is none of its arguments: how it is "
                "called cannot be preserved"
            )
        else:
            self.taken.append(node)
            made = self._placeholder(node.name)
        made.meta = dict(node.meta)
        self.known[node] = made
        return made

    def fill(self) -> None:
        """Nodes and calls, in order."""
        for part in self.call.parts:
            if isinstance(part, _Call):
                self._call(part)
            else:
                self.known[part] = self.graph.node_copy(part, self.value)

    def _call(self, call: _Call) -> None:
        module, attribute = self.whole.module_for(call, self)
        inner = _Frame(self.whole, call, module)
        inner.fill()
        if inner.signature is not None:
            results, leaves = self._as_it_was(inner, attribute), inner.signature.outputs
            nodes = [None if isinstance(leaf, ConstantArgument) else self.whole.names[leaf.name] for leaf in leaves]
        else:
            nodes = self.whole.read_outside(call)
            inner.graph.output(_one_or_all([inner.value(node) for node in nodes]))
            made = self.graph.call_module(attribute, tuple(map(self.value, inner.taken)))
            results = [made] if len(nodes) == 1 else [self._item(made, k) for k in range(len(nodes))]
        for node, result in zip(nodes, results):
            if node is not None:
                self.known[node], result.meta = result, dict(node.meta)
        module.graph = inner.graph

    def _item(self, of: Node, key) -> Node:
        return self.graph.call_function(operator.getitem, (of, key))

    def _spec(self, spec) -> Node:
        """How arguments or a result nest, as an attribute of the module."""
        name = f"_spec_{self.n_specs}"
        self.n_specs += 1
        setattr(self.module, name, spec)
        return self._at_front("get_attr", name, name)

    def _as_it_was(self, inner: "_Frame", attribute: str) -> list:
        """The call of a module that takes and returns what the original did: nodes for the leaves of its result."""
        signature, names = inner.signature, self.whole.names
        given = [a.value if isinstance(a, ConstantArgument) else self.value(names[a.name]) for a in signature.inputs]
        positional, keywords = signature.in_spec.children()
        n, keys = positional.num_children, list(keywords.context)
        nested = self.graph.call_function(pytree.tree_unflatten, (given, self._spec(signature.in_spec)))
        args, kwargs = self._item(nested, 0), self._item(nested, 1)
        made = self.graph.call_module(
            attribute, tuple(self._item(args, k) for k in range(n)), {key: self._item(kwargs, key) for key in keys}
        )
        leaves = self.graph.call_function(leaves_of, (made, self._spec(signature.out_spec)))
        outputs = [
            a.value if isinstance(a, ConstantArgument) else inner.value(names[a.name]) for a in signature.outputs
        ]
        inner.graph.output(tuple(outputs))
        info = _PyTreeInfo([*(f"arg_{k}" for k in range(n)), *keys], signature.in_spec, signature.out_spec)
        inner.graph.set_codegen(_PyTreeCodeGen(info))
        inner.module._in_spec, inner.module._out_spec = signature.in_spec, signature.out_spec  # what its code reads
        return [self._item(leaves, k) for k in range(len(outputs))]


def leaves_of(result, spec) -> list:
    """The leaves of what a submodule returned, which must nest as the original's result did."""
    leaves, found = pytree.tree_flatten(result)
    if found != spec:
        raise TypeError(f"torch.export.unflatten: a submodule returned {found}, where the original returned {spec}")
    return leaves


def _one_or_all(values: list):
    return values[0] if len(values) == 1 else tuple(values)


class _Whole:
    """The program as it is taken apart. names: {name in the program: node of the whole graph}."""

    def __init__(self, program, root: Module) -> None:
        self.program, self.root, self.graph = program, root, lift_off(program)
        attributes = {node.target: node for node in self.graph.find_nodes(op="get_attr")}
        self.names = {node.name: node for node in self.graph.nodes}
        for spec in program.graph_signature.input_specs:
            if spec.target in attributes:
                self.names[spec.arg.name] = attributes[spec.target]
        self.signatures = {entry.fqn: entry.signature for entry in program.module_call_graph[1:] if entry.signature}
        self.calls: dict = {}  # {(module that calls, place in it): modules of its calls}

    def read_outside(self, call: _Call) -> list:
        """The nodes in a call that others read."""
        inside = list(call.nodes())
        known = set(inside)
        return [node for node in inside if any(user not in known for user in node.users)]

    def module_for(self, call: _Call, outer: _Frame) -> tuple:
        """(a new module for a call, its place in the module that makes the call)."""
        made = InterpreterModule(Graph(), call.kind)
        place = _below(call.path, outer.call.path)
        modules = self.calls.setdefault((outer.module, place), [])
        if modules and call.fqn not in self.signatures:
            place = f"{place}@{len(modules)}"
        if not modules or "@" in place:
            _put(outer.module, place, made)
        modules.append(made)
        return made, place

    def put_states(self) -> None:
        """Copies of parameters, buffers and constants, wherever their module was called."""
        apart = set(self.program.graph_signature.non_persistent_buffers)
        constants = set(self.program.graph_signature.lifted_tensor_constants)
        copies: dict = {}
        for path, value in {**self.program.state_dict, **self.program.constants}.items():
            if id(value) not in copies:
                copy = value.detach().clone()
                is_parameter = isinstance(value, Parameter)
                copies[id(value)] = Parameter(copy, value.requires_grad) if is_parameter else copy
            made = copies[id(value)]
            *above, name = path.split(".")
            for holder in _holders(self.root, above):
                if isinstance(made, Parameter):
                    holder.register_parameter(name, made)
                elif path in constants:
                    setattr(holder, name, made)
                else:
                    holder.register_buffer(name, made, persistent=path not in apart)

    def finish(self) -> None:
        """Of several calls of a module that is called as the original was: one module for all of them."""
        for (outer, place), modules in self.calls.items():
            for module in modules:
                module.finalize()
            if len(modules) > 1 and isinstance(modules[0].graph._codegen, _PyTreeCodeGen):
                names = {*modules[0]._parameters, *modules[0]._buffers}
                _put(outer, place, InterpreterModuleDispatcher(names, modules))


def _put(outer: Module, place: str, module: Module) -> None:
    *above, name = place.split(".")
    for holder in _holders(outer, above):
        holder.add_module(name, module)


def _holders(root: Module, above: list) -> list:
    """The modules at a path, of each call of those on the way; empty ones are made where there are none."""
    found = [root]
    for name in above:
        inner = []
        for holder in found:
            if name not in holder._modules:
                holder.add_module(name, Module())
            inner += [each for key, each in holder._modules.items() if key.partition("@")[0] == name]
        found = inner
    return found


def nest(program, root: Module) -> str | None:
    """Gives `root` a graph and the modules that it calls. The original's class by name, where a node tells."""
    whole = _Whole(program, root)
    frame = _Frame(whole, _calls_of(whole.graph), root)
    for node in whole.graph.find_nodes(op="placeholder"):
        frame.known[node] = frame._placeholder(node.name)
        frame.known[node].meta = dict(node.meta)
    frame.fill()
    results = whole.graph.output_node().args[0]
    frame.graph.output(tuple(frame.value(each) if isinstance(each, Node) else each for each in results))
    root.graph = frame.graph
    whole.put_states()
    whole.finish()
    stacks = (node.meta.get("nn_module_stack", {}) for node in whole.graph.nodes)
    return next((kind for stack in stacks for path, kind in stack.values() if not path), None)
