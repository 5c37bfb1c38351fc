"""NormalizeArgs: a graph whose calls have their arguments by the signatures of what they call."""

from ..interpreter import Transformer
from ..node import map_aggregate
from ..operator_schemas import create_type_hint, normalize_function, normalize_module


class NormalizeArgs(Transformer):
    """transform() gives the graph with calls of functions of torch and of layers normalised, to named arguments alone
    (or, False, those that were by place stay there). Types of nodes choose among operators of one name: meta["type"].
    """

    def __init__(self, module, normalize_to_only_use_kwargs: bool = True) -> None:
        super().__init__(module)
        self.normalize_to_only_use_kwargs = normalize_to_only_use_kwargs
        self.node_map: dict = {}  # proxy -> node

    def run_node(self, n):
        args, kwargs = self.fetch_args_kwargs_from_env(n)

        def kind_of(value):
            return value.meta.get("type") if hasattr(value, "meta") else type(value)

        if n.op == "call_function":
            arg_types = tuple(create_type_hint(map_aggregate(each, kind_of)) for each in n.args)
            kwarg_types = {name: create_type_hint(map_aggregate(each, kind_of)) for name, each in n.kwargs.items()}
            out = self.call_function(n.target, args, kwargs, arg_types, kwarg_types)
        else:
            out = super().run_node(n)
        if n.op != "output":
            self.node_map[out] = n
            out.node.meta = dict(n.meta)
            out.node.type = n.type
        return out

    def call_function(
        self, target, args: tuple, kwargs: dict, arg_types: tuple | None = None, kwarg_types: dict | None = None
    ):
        found = normalize_function(target, args, kwargs, arg_types, kwarg_types, self.normalize_to_only_use_kwargs)
        args, kwargs = found or (args, kwargs)
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def call_module(self, target: str, args: tuple, kwargs: dict):
        found = normalize_module(self.module, target, args, kwargs, self.normalize_to_only_use_kwargs)
        return super().call_module(target, *(found or (args, kwargs)))
