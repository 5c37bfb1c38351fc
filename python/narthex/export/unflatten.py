"""torch.export.unflatten: an exported program as modules that nest as the original's did.

Each call of a submodule becomes a module with a graph of its own: it takes what it reads of values from outside, in the
order in which it first reads them, and returns what is read of its values outside; one whose call was kept
(preserve_module_call_signature) takes and returns what the original did. Parameters, buffers and constants are the
attributes that they were."""

import abc

from ..fx import Graph, GraphModule
from ..nn import Module
from ..utils import _pytree as pytree

__all__ = [
    "FlatArgsAdapter", "InterpreterModule", "InterpreterModuleDispatcher", "UnflattenedModule", "unflatten",
]  # fmt: skip


class FlatArgsAdapter(abc.ABC):
    """Turns the leaves of a call's arguments into those that a program was exported with, where they nest in another
    way."""

    @abc.abstractmethod
    def adapt(self, target_spec, input_spec, input_args: list, metadata: dict | None = None, obj=None) -> list:
        """The leaves for target_spec, of the leaves `input_args` that nest as input_spec says. metadata: the module's
        `meta`; obj: the call's positional arguments."""

    def get_flat_arg_paths(self) -> list:
        """Names of what `adapt` gives, for errors."""
        return []


class InterpreterModule(Module):
    """One call of a submodule, by its graph, whose submodules and state are this module's attributes."""

    def __init__(self, graph: Graph, ty: str | None = None) -> None:
        super().__init__()
        self.graph, self._ty = graph, ty
        self.__dict__["graph_module"] = None

    def type_name(self) -> str | None:
        """The original's class, by name."""
        return self._ty

    def finalize(self) -> None:
        """Makes code of the graph."""
        self.graph.lint()
        self.__dict__["graph_module"] = GraphModule(self, self.graph)
        self.arg_names = [node.target for node in self.graph.find_nodes(op="placeholder")]

    def forward(self, *args, **kwargs):
        """What the graph returns; arguments as it takes them."""
        if self.graph_module is None:
            raise AssertionError("Didn't finalize this InterpreterModule")
        return type(self.graph_module).forward(self, *args, **kwargs)

    def print_readable(self, print_output=True, include_stride=False, include_device=False, colored=False) -> str:
        """The code, as GraphModule.print_readable shows it."""
        return self.graph_module.print_readable(print_output, include_stride, include_device, colored)


class InterpreterModuleDispatcher(Module):
    """A submodule that was called several times: its calls in turn."""

    def __init__(self, attrs: set, call_modules: list) -> None:
        super().__init__()
        if not call_modules:
            raise AssertionError("call_modules must not be empty")
        first = call_modules[0]
        self._modules = first._modules
        for name in attrs:
            setattr(self, name, getattr(first, name))
        self.__dict__["_call_modules"] = call_modules
        self._ty, self._num_calls = first._ty, 0

    def type_name(self) -> str | None:
        """The original's class, by name."""
        return self._ty

    def call_modules(self) -> list:
        """A module for each call."""
        return self._call_modules

    def forward(self, *args, **kwargs):
        """The next call; the first again after the last, or after an error."""
        call = self._call_modules[self._num_calls]
        self._num_calls = (self._num_calls + 1) % len(self._call_modules)
        try:
            return call(*args, **kwargs)
        except Exception:
            self._num_calls = 0
            raise

    def print_readable(self, print_output=True, include_stride=False, include_device=False, colored=False) -> str:
        """The code of each call."""
        return "\n".join(
            each.print_readable(print_output, include_stride, include_device, colored) for each in self._call_modules
        )


class UnflattenedModule(Module):
    """What `unflatten` gives: the program's root, called as the original was."""

    def __init__(self, export_module, flat_args_adapter: FlatArgsAdapter | None = None) -> None:
        from ._nest import nest
        from ._unlift import checks_of

        super().__init__()
        self.graph_signature = export_module.graph_signature
        self.module_call_graph = list(export_module.module_call_graph)
        self.range_constraints = export_module.range_constraints
        self.flat_args_adapter, self.adapted, self.check_input_constraints = flat_args_adapter, False, True
        self.meta: dict = {}
        self.__dict__["_checks"] = checks_of(export_module)
        self._ty = nest(export_module, self)
        self.finalize()

    def finalize(self) -> None:
        """Makes what runs of the graph, once more after it was edited."""
        self.__dict__["graph_module"] = GraphModule(self, self.graph)
        self.graph.lint()

    def type_name(self) -> str | None:
        """The original's class, by name."""
        return self._ty

    def process_forward_inputs(self, *args, **kwargs) -> list:
        """The leaves of a call's arguments, as the graph takes them. Raises TypeError where they nest in another way
        and there is no adapter, RuntimeError where one is not what the program was exported for."""
        wanted = self.module_call_graph[0].signature.in_spec
        order = [key for key in wanted.children()[1].context if key in kwargs]
        kwargs = {key: kwargs[key] for key in [*order, *(key for key in kwargs if key not in order)]}
        leaves, spec = pytree.tree_flatten((args, kwargs))
        if spec != wanted:
            leaves = self._adapt_flat_args(leaves, spec, args)
            self.adapted = True
        known: dict = {}
        for text, place, holds in self._checks if self.check_input_constraints else ():
            if not holds(leaves[place], known):
                raise RuntimeError(f"Guard failed: {text}")
        return leaves

    def _adapt_flat_args(self, leaves: list, spec, args: tuple) -> list:
        wanted = self.module_call_graph[0].signature.in_spec
        if self.flat_args_adapter is None:
            raise TypeError(
                "There is no flat args adapter specified. Are you sure you are calling this with the right arguments? "
            )
        leaves = self.flat_args_adapter.adapt(
            target_spec=wanted, input_spec=spec, input_args=leaves, metadata=self.meta, obj=args
        )
        if len(leaves) != wanted.num_leaves:
            raise TypeError(
                f"Flat args adaption failed, number of args mismatch Adapted: {len(leaves)} \n"
                f"Exported module: {wanted.num_leaves}"
            )
        return leaves

    def forward(self, *args, **kwargs):
        """What the original returns."""
        leaves = self.process_forward_inputs(*args, **kwargs)
        results = type(self.graph_module).forward(self, *leaves)
        return pytree.tree_unflatten(list(results), self.module_call_graph[0].signature.out_spec)

    def print_readable(self, print_output=True, include_stride=False, include_device=False, colored=False) -> str:
        """The code, as GraphModule.print_readable shows it."""
        return self.graph_module.print_readable(print_output, include_stride, include_device, colored)


def unflatten(module, flat_args_adapter: FlatArgsAdapter | None = None) -> UnflattenedModule:
    """The ExportedProgram `module` as modules with the original's names and nesting, over copies of its state.

    A submodule takes and returns what its part of the graph needs; one whose path was in export's
    preserve_module_call_signature what the original did, so that another module can be put in its place. The second
    call of `a` is the module a@1, unless its signature was preserved. flat_args_adapter: asked where the arguments of a
    call nest in another way than those of the export.
    """
    return UnflattenedModule(module, flat_args_adapter)
