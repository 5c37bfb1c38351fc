"""ExportedProgram: a module's call as one graph, with its state beside it."""

import copy
from typing import NamedTuple

from .. import _C
from ..fx import GraphModule
from ..utils import _pytree as pytree
from .graph_signature import NEW_VALUES, ExportGraphSignature, InputKind

__all__ = ["ExportedProgram", "ModuleCallEntry", "ModuleCallSignature", "default_decompositions"]


class ModuleCallSignature(NamedTuple):
    """How a module is called: its inputs and results in the graph, and how both nest."""

    inputs: list
    outputs: list
    in_spec: pytree.TreeSpec
    out_spec: pytree.TreeSpec
    forward_arg_names: list | None = None

    def replace_all_uses_with(self, original_node, new_node) -> None:
        """Inputs and results that go by the name of the one go by that of the other."""
        for each in (*self.inputs, *self.outputs):
            if each.name == original_node.name:
                each.name = new_node.name


class ModuleCallEntry:
    """A submodule by path, with its signature where that was kept."""

    def __init__(self, fqn: str, signature: ModuleCallSignature | None = None) -> None:
        self.fqn, self.signature = fqn, signature

    def __repr__(self) -> str:
        return f"ModuleCallEntry(fqn={self.fqn!r}, signature={self.signature!r})"


class CallSpec(NamedTuple):
    """How arguments and results nest."""

    in_spec: pytree.TreeSpec | None
    out_spec: pytree.TreeSpec | None


class Verifier:
    """Says of which dialect a program is."""

    dialect = "ATEN"


class TrainingIRVerifier(Verifier):
    """Of a program as it was traced: it may write in place."""

    dialect = "TRAINING"


class CustomDecompTable(dict):
    """The table that run_decompositions uses where it is given none, to be changed: what is taken out of it stays one
    operator."""

    def __init__(self) -> None:
        from .._decomp import core_aten_decompositions

        super().__init__(core_aten_decompositions())

    def keys(self):
        """The operators."""
        return super().keys()

    def items(self):
        """Pairs of operator and function."""
        return super().items()

    def update(self, other_dict) -> None:
        """Takes what `other_dict` has."""
        super().update(other_dict)

    def copy(self) -> "CustomDecompTable":
        """Another one with the same entries."""
        made = CustomDecompTable()
        made.clear()
        made.update(self)
        return made

    def pop(self, *args):
        """Takes an operator out, and gives its function."""
        return super().pop(*args)

    def materialize(self) -> dict:
        """A plain dict of its entries."""
        return dict(self)


def default_decompositions() -> CustomDecompTable:
    """A new table of what run_decompositions takes to pieces where it is given none."""
    return CustomDecompTable()


class ExportedProgram:
    """graph_module takes state and arguments, flat, as graph_signature says, and returns a flat tuple; module() is
    called as the original module was. What it holds (state_dict, constants) are the module's own tensors."""

    def __init__(
        self,
        root,
        graph,
        graph_signature: ExportGraphSignature,
        state_dict: dict,
        range_constraints: dict,
        module_call_graph: list,
        example_inputs: tuple | None = None,
        constants: dict | None = None,
        *,
        verifiers: list | None = None,
        hints: dict | None = None,
    ) -> None:
        if isinstance(graph, _C.Graph) or not module_call_graph or module_call_graph[0].fqn != "":
            raise AssertionError("module_call_graph[0] must be the root's entry")
        graph._codegen = type(graph._codegen)() if not hasattr(graph._codegen, "pytree_info") else _plain_codegen()
        self._graph_module = root if isinstance(root, GraphModule) and root.graph is graph else GraphModule({}, graph)
        self._graph_signature, self._state_dict = graph_signature, state_dict
        self._range_constraints, self._module_call_graph = range_constraints, module_call_graph
        self._example_inputs, self._constants = example_inputs, constants or {}
        self._verifiers, self._hints = verifiers or [Verifier], hints or {}

    # ---- what it is made of
    graph_module = property(lambda self: self._graph_module)
    graph = property(lambda self: self._graph_module.graph)
    graph_signature = property(lambda self: self._graph_signature)
    state_dict = property(lambda self: self._state_dict)
    range_constraints = property(lambda self: self._range_constraints)
    module_call_graph = property(lambda self: self._module_call_graph)
    constants = property(lambda self: self._constants)
    tensor_constants = property(lambda self: self._constants)
    verifiers = property(lambda self: self._verifiers)
    verifier = property(lambda self: self._verifiers[0])
    dialect = property(lambda self: self._verifiers[0].dialect)

    @property
    def example_inputs(self):
        """The (args, kwargs) that it was traced with; None where they are not known."""
        return self._example_inputs

    @example_inputs.setter
    def example_inputs(self, value) -> None:
        if value is None:
            self._example_inputs = None
            return
        if not (
            isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], tuple) and isinstance(value[1], dict)
        ):
            raise ValueError(
                "Example inputs should be a tuple containing example arguments (as a tuple), and example kwargs "
                f"(as a dictionary). Got {value}"
            )
        self._example_inputs = value

    @property
    def call_spec(self) -> CallSpec:
        """How module()'s arguments and result nest."""
        signature = self._module_call_graph[0].signature
        return CallSpec(signature.in_spec, signature.out_spec)

    def named_parameters(self):
        """(path, parameter) of each."""
        for path in self._graph_signature.parameters:
            yield path, self._state_dict[path]

    def parameters(self):
        """The parameters."""
        return (value for _, value in self.named_parameters())

    def named_buffers(self):
        """(path, buffer) of each."""
        apart = self._graph_signature.non_persistent_buffers
        for path in self._graph_signature.buffers:
            yield path, (self._constants if path in apart else self._state_dict)[path]

    def buffers(self):
        """The buffers."""
        return (value for _, value in self.named_buffers())

    # ---- running
    def __call__(self, *args, **kwargs):
        raise RuntimeError(
            "Unable to call ExportedProgram directly. You should use `exported_program.module()` instead."
        )

    def module(self, check_guards: bool = True) -> GraphModule:
        """A module that is called as the original one was, over the same state. check_guards: whether it raises where
        an input is not of the shape, or a number not the one, that the program was traced for."""
        from ._unlift import unlift

        return unlift(self, check_guards)

    def run_decompositions(
        self, decomp_table: dict | None = None, decompose_custom_triton_ops: bool = False
    ) -> "ExportedProgram":
        """The same program of functional ATen operators: what it writes are results of their own (BUFFER_MUTATION and
        so on). decomp_table: {operator: function} of what is taken to pieces; None: default_decompositions()."""
        from ._decompose import decompose

        return decompose(self, default_decompositions() if decomp_table is None else dict(decomp_table))

    def validate(self) -> None:
        """Raises where graph and signature do not belong together."""
        self.graph.lint()
        names = [node.name for node in self.graph.find_nodes(op="placeholder")]
        specs = [spec.arg.name for spec in self._graph_signature.input_specs]
        results = self.graph.output_node().args[0]
        if names != specs or len(results) != len(self._graph_signature.output_specs):
            raise RuntimeError(f"ExportedProgram: the graph takes {names}, its signature says {specs}")
        for spec in self._graph_signature.input_specs:
            if (
                spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
                and self._value_of(spec) is None
            ):
                raise RuntimeError(f"ExportedProgram: there is no {spec.target} among its state and constants")

    def _value_of(self, spec):
        """The tensor of an input that is none of the user's."""
        found = self._state_dict.get(spec.target)
        return self._constants.get(spec.target) if found is None else found

    @property
    def user_placeholders(self) -> list:
        """The nodes of the arguments, in order."""
        specs = self._graph_signature.input_specs
        nodes = self.graph.find_nodes(op="placeholder")
        return [node for node, spec in zip(nodes, specs) if spec.kind is InputKind.USER_INPUT]

    @property
    def n_written(self) -> int:
        """How many of the results are new values of what is written; they stand first."""
        return sum(spec.kind in NEW_VALUES for spec in self._graph_signature.output_specs)

    def __deepcopy__(self, memo) -> "ExportedProgram":
        made = copy.copy(self)
        made.__dict__.update({key: copy.deepcopy(value, memo) for key, value in self.__dict__.items()
                              if key not in ("_verifiers", "_module_call_graph")})  # fmt: skip
        return made

    def __str__(self) -> str:
        text = self._graph_module.print_readable(print_output=False).rstrip("\n")
        program = "\n".join(f"    {line}" for line in text.split("\n"))
        signature = "\n".join(
            f"    {line}".rstrip() if line else "    " for line in str(self._graph_signature).strip("\n").split("\n")
        )
        ranges = ", ".join(f"{symbol}: {bounds}" for symbol, bounds in self._range_constraints.items())
        head = f"ExportedProgram:\n{program}\n    \nGraph signature: \n{signature}\n    \n"
        return f"{head}Range constraints: {{{ranges}}}\n"


def _plain_codegen():
    from ..fx import CodeGen

    return CodeGen()
