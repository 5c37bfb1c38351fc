"""Interpreter: runs a GraphModule node by node; Transformer: makes another one of it in the same way."""

from inspect import Signature

from ..nn import Module
from .graph import Graph
from .graph_module import GraphModule
from .node import Node, map_arg
from .proxy import Proxy, TracerBase


class Interpreter:
    """Runs a GraphModule node by node. Subclasses change what a kind of node does: placeholder, get_attr,
    call_function, call_method, call_module, output; or run_node. Values are forgotten after their last use
    (garbage_collect_values)."""

    def __init__(self, module: Module, garbage_collect_values: bool = True, graph: Graph | None = None) -> None:
        self.module, self.submodules = module, dict(module.named_modules())
        self.graph = module.graph if graph is None else graph
        self.env: dict = {}
        self.name, self.extra_traceback = "Interpreter", True
        self.garbage_collect_values = garbage_collect_values
        self.user_to_last_uses: dict = {}
        if garbage_collect_values:
            seen = set()
            for node in reversed(self.graph.nodes):
                for given in node.all_input_nodes:
                    if given not in seen:
                        seen.add(given)
                        self.user_to_last_uses.setdefault(node, []).append(given)

    def run(self, *args, initial_env: dict | None = None, enable_io_processing: bool = True):
        """The graph's result; initial_env: values of nodes that need not be computed."""
        self.env = dict(initial_env or {})
        self.args_iter = iter(self.graph.process_inputs(*args) if enable_io_processing else args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                if self.extra_traceback:
                    said = error.args[0] if error.args else ""
                    place = f"While executing {node.format_node()}\nOriginal traceback:\n{node.stack_trace}"
                    error.args = (f"{said}\n\n{place}", *error.args[1:])
                if isinstance(error, KeyError):  # which shows its text as one line
                    raise RuntimeError(*error.args) from error
                raise
            for dead in self.user_to_last_uses.get(node, ()):
                del self.env[dead]
            if node.op == "output":
                result = self.env[node]
                return self.graph.process_outputs(result) if enable_io_processing else result
        return None

    def boxed_run(self, args_list: list):
        """run(*args_list), which is emptied, so that inputs may go as soon as they are not needed."""
        placeholders = self.graph.find_nodes(op="placeholder")
        if len(args_list) != len(placeholders):
            kind = "extra" if len(args_list) > len(placeholders) else "missing"
            raise RuntimeError(
                f"Interpreter.boxed_run expected {len(placeholders)} arguments for placeholders but received "
                f"{len(args_list)} ({kind} arguments)"
            )
        given = dict(zip(placeholders, args_list))
        args_list.clear()
        return self.run(initial_env=given)

    def run_node(self, n: Node):
        """The value of one node."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(self, target: str, args: tuple, kwargs: dict):
        """The next argument, or the default."""
        if target.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration:
            if args:
                return args[0]
            raise RuntimeError(
                f"Expected positional argument for parameter {target}, but one was not passed in!"
            ) from None

    def get_attr(self, target: str, args: tuple, kwargs: dict):
        """The module's attribute."""
        return self.fetch_attr(target)

    def call_function(self, target, args: tuple, kwargs: dict):
        """The function's result."""
        return target(*args, **kwargs)

    def call_method(self, target: str, args: tuple, kwargs: dict):
        """The method's result."""
        return getattr(args[0], target)(*args[1:], **kwargs)

    def call_module(self, target: str, args: tuple, kwargs: dict):
        """The submodule's result."""
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target: str, args: tuple, kwargs: dict):
        """What the graph returns."""
        return args[0]

    def fetch_attr(self, target: str):
        """module.a.b"""
        at, done = self.module, []
        for name in target.split("."):
            if not hasattr(at, name):
                raise RuntimeError(f"Node referenced nonexistent target {'.'.join([*done, name])}")
            at = getattr(at, name)
            done.append(name)
        return at

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple:
        """The node's arguments with values in place of nodes."""
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args, n: Node):
        """`args` with values in place of nodes."""

        def value(node):
            if node not in self.env:
                raise RuntimeError(
                    f"Node {n} referenced nonexistent value {node}! Run Graph.lint() to diagnose such issues"
                )
            return self.env[node]

        return map_arg(args, value)


class _Tracer(TracerBase):
    def __init__(self, graph: Graph) -> None:
        self.graph, self.tensor_attrs = graph, {}

    def is_leaf_module(self, module, name) -> bool:
        return True


class Transformer(Interpreter):
    """An Interpreter whose values are proxies: transform() gives the GraphModule of what it did."""

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph._codegen = module.graph._codegen
        self.tracer = _Tracer(self.new_graph)
        self.tracer.root = module

    def placeholder(self, target: str, args: tuple, kwargs: dict) -> Proxy:
        default = args[0] if args else Signature.empty
        return Proxy(self.new_graph.placeholder(target, default_value=default), self.tracer)

    def get_attr(self, target: str, args: tuple, kwargs: dict) -> Proxy:
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: str, args: tuple, kwargs: dict):
        return self.tracer.create_proxy("call_module", target, args, kwargs)

    def call_function(self, target, args: tuple, kwargs: dict):
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def call_method(self, target: str, args: tuple, kwargs: dict):
        return self.tracer.create_proxy("call_method", target, args, kwargs)

    def transform(self) -> GraphModule:
        """The transformed module."""
        result = super().run(enable_io_processing=False)
        if result is not None:
            output = self.new_graph.output(map_arg_of_proxies(result))
            output.meta = dict(self.graph.output_node().meta)
        return GraphModule(self.module, self.new_graph, type(self.module).__name__)


def map_arg_of_proxies(value):
    """`value` with the nodes of proxies in their place."""
    from .node import map_aggregate

    return map_aggregate(value, lambda x: x.node if isinstance(x, Proxy) else x)
