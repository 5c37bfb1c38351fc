"""Graph and Node: views of a `_C.Graph`, which cannot be edited from Python yet: what would edit raises."""

import operator

from .. import _C


def _object_of(text: str):
    """What "torch.add", "operator.mul" or "torch.ops.aten.add.Tensor" names; the text where it names nothing."""
    import narthex

    known = _C.functions.get(text)
    if known is not None:
        return known
    head, *names = text.split(".")
    found = {"torch": narthex, "operator": operator}.get(head)
    try:
        for name in names:
            found = getattr(found, name)
    except AttributeError:
        return text
    return text if found is None else found


def _no_edit(what: str):
    def refuse(self, value):
        raise NotImplementedError(f"fx.Node: setting {what} is not there yet: graphs cannot be edited from Python")

    return refuse


class Node:
    """One node: op, name, target, args, kwargs, meta, users, all_input_nodes."""

    __slots__ = ("_c", "_meta", "_target", "graph")

    def __init__(self, graph, node) -> None:
        self._c, self.graph, self._meta = node, graph, None
        self._target = _object_of(node.target) if node.op == "call_function" else node.target

    op = property(lambda self: self._c.op, _no_edit("op"))
    name = property(lambda self: self._c.name, _no_edit("name"))
    target = property(
        lambda self: self._target,
        _no_edit("target"),
        doc="What is called: the function or operator itself, the name of a method, an input or an attribute.",
    )

    def _wrap(self, value):
        return self.graph._wrap(value)

    args = property(lambda self: tuple(self._wrap(value) for value in self._c.args), _no_edit("args"))
    kwargs = property(
        lambda self: {name: self._wrap(value) for name, value in self._c.kwargs.items()}, _no_edit("kwargs")
    )

    @property
    def meta(self) -> dict:
        """What is known, to be added to: val (the fake result), source (file, line, function, code), stack_trace."""
        if self._meta is None:
            self._meta = self._c.meta
        return self._meta

    @meta.setter
    def meta(self, value: dict) -> None:
        self._meta = value

    @property
    def all_input_nodes(self) -> list:
        """The nodes that stand in the arguments, each once."""
        found = {}

        def visit(value):
            if isinstance(value, Node):
                found[value.name] = value
            elif isinstance(value, (list, tuple)):
                for item in value:
                    visit(item)

        visit([*self.args, *self.kwargs.values()])
        return list(found.values())

    @property
    def users(self) -> dict:
        """A dict whose keys are the nodes that mention this one."""
        return {self._wrap(node): None for node in self._c.users}

    def __eq__(self, other) -> bool:
        return isinstance(other, Node) and other.graph is self.graph and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return self.name

    def format_node(self) -> str:
        """`%add : [num_users=1] = call_function[target=torch.add](args = (%x, %y), kwargs = {})`"""
        users = f"[num_users={len(self.users)}]"
        if self.op == "placeholder":
            return f"%{self.name} : {users} = placeholder[target={self._c.target}]"
        args = _argument_text(self.args)
        if self.op == "output":
            return "return " + ", ".join(_argument_text(value) for value in (self.args[0] if self.args else ()))
        if self.op == "get_attr":
            return f"%{self.name} : {users} = get_attr[target={self._c.target}]"
        kwargs = "{" + ", ".join(f"{name}: {_argument_text(value)}" for name, value in self.kwargs.items()) + "}"
        return f"%{self.name} : {users} = {self.op}[target={self._c.target}](args = {args}, kwargs = {kwargs})"


def _argument_text(value) -> str:
    if isinstance(value, Node):
        return "%" + value.name
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_argument_text, value)) + ("," if len(value) == 1 else "") + ")"
    if isinstance(value, list):
        return "[" + ", ".join(map(_argument_text, value)) + "]"
    return str(value)


class Graph:
    """A view of a `_C.Graph`, which keeps the nodes."""

    def __init__(self, graph=None) -> None:
        if graph is None:
            raise NotImplementedError(
                "fx.Graph(): building a graph in Python is not there yet; parse one with _C.Graph.parse(text)"
            )
        self._c = graph
        self._by_name = {node.name: Node(self, node) for node in graph.nodes}
        self._node_type = type(graph.nodes[-1])

    @property
    def nodes(self) -> list:
        """The nodes in order."""
        return list(self._by_name.values())

    def _wrap(self, value):
        if type(value) is self._node_type:
            return self._by_name[value.name]
        if isinstance(value, (list, tuple)):
            return type(value)(self._wrap(item) for item in value)
        return value

    def python_code(self, root_module: str = "self", *, verbose: bool = False) -> str:
        """The graph as Python; verbose: with shapes and source lines."""
        return self._c.python(shapes=verbose, lines=verbose)

    def print_tabular(self) -> None:
        """Prints op, name, target, args and kwargs as a table."""
        rows = [("opcode", "name", "target", "args", "kwargs")]
        rows += [(n.op, n.name, n._c.target, str(n.args), str(n.kwargs)) for n in self.nodes]
        widths = [max(len(row[at]) for row in rows) for at in range(5)]
        for at, row in enumerate(rows):
            print("  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip())
            if at == 0:
                print("  ".join("-" * width for width in widths))

    def lint(self) -> None:
        """Raises RuntimeError if the graph is not well formed."""
        self._c.verify()

    def __str__(self) -> str:
        nodes = self.nodes
        inputs = ", ".join("%" + node.name for node in nodes if node.op == "placeholder")
        return f"graph({inputs}):\n" + "\n".join("    " + node.format_node() for node in nodes)
