"""What the inputs and results of an exported graph are."""

from dataclasses import dataclass
from enum import Enum, auto
from types import MappingProxyType

__all__ = [
    "ConstantArgument", "CustomObjArgument", "ExportBackwardSignature", "ExportGraphSignature", "InputKind",
    "InputSpec", "OutputKind", "OutputSpec", "SymBoolArgument", "SymFloatArgument", "SymIntArgument",
    "TensorArgument", "TokenArgument",
]  # fmt: skip


@dataclass
class TensorArgument:
    """A tensor, by the name of its node."""

    name: str


@dataclass
class TokenArgument:
    """A token that keeps effects in order; none is ever made here."""

    name: str


@dataclass
class SymIntArgument:
    """A whole number that is a value of the graph."""

    name: str


@dataclass
class SymFloatArgument:
    """A float that is a value of the graph; none is ever made here."""

    name: str


@dataclass
class SymBoolArgument:
    """A truth value that is a value of the graph; none is ever made here."""

    name: str


@dataclass
class CustomObjArgument:
    """An object of TorchScript's classes; none is ever made here."""

    name: str
    class_fqn: str
    fake_val: object = None


@dataclass
class ConstantArgument:
    """A number, text, truth value or None."""

    name: str
    value: int | float | bool | str | None


ArgumentSpec = (
    TensorArgument
    | SymIntArgument
    | SymFloatArgument
    | SymBoolArgument
    | ConstantArgument
    | CustomObjArgument
    | TokenArgument
)


class InputKind(Enum):
    """What an input of the graph is."""

    USER_INPUT = auto()
    PARAMETER = auto()
    BUFFER = auto()
    CONSTANT_TENSOR = auto()
    CUSTOM_OBJ = auto()
    TOKEN = auto()


class OutputKind(Enum):
    """What a result of the graph is."""

    USER_OUTPUT = auto()
    LOSS_OUTPUT = auto()
    BUFFER_MUTATION = auto()
    PARAMETER_MUTATION = auto()
    GRADIENT_TO_PARAMETER = auto()
    GRADIENT_TO_USER_INPUT = auto()
    USER_INPUT_MUTATION = auto()
    TOKEN = auto()


# What a result that is the new value of an input is, by what the input is.
NEW_VALUE_OF = {
    InputKind.BUFFER: OutputKind.BUFFER_MUTATION,
    InputKind.PARAMETER: OutputKind.PARAMETER_MUTATION,
    InputKind.USER_INPUT: OutputKind.USER_INPUT_MUTATION,
}
NEW_VALUES = frozenset(NEW_VALUE_OF.values())


@dataclass
class InputSpec:
    """kind, the value, its path in the module (target) and, of a buffer, whether state_dict holds it."""

    kind: InputKind
    arg: ArgumentSpec
    target: str | None
    persistent: bool | None = None

    def __post_init__(self) -> None:
        if self.kind == InputKind.BUFFER and self.persistent is None:
            raise AssertionError("Failed to specify persistent flag on BUFFER.")

    def __str__(self) -> str:
        target = "" if self.target is None else f" target='{self.target}'"
        persistent = "" if self.persistent is None else f" persistent={self.persistent}"
        return f"{self.arg.name}: {self.kind.name}{target}{persistent}"


@dataclass
class OutputSpec:
    """kind, the value and what it is the new value or the gradient of (target)."""

    kind: OutputKind
    arg: ArgumentSpec
    target: str | None

    def __str__(self) -> str:
        target = "" if self.target is None else f" target='{self.target}'"
        return f"{self.arg.name}: {self.kind.name}{target}"


@dataclass
class ExportBackwardSignature:
    """Which results are gradients, and which is the loss."""

    gradients_to_parameters: dict
    gradients_to_user_inputs: dict
    loss_output: str


def _value_of(arg):
    """What user_inputs and user_outputs say: a name, or the constant."""
    return arg.value if isinstance(arg, ConstantArgument) else arg.name


@dataclass
class ExportGraphSignature:
    """A spec for each placeholder and for each result of the graph, in order."""

    input_specs: list
    output_specs: list

    def _inputs(self, *kinds) -> list:
        return [spec for spec in self.input_specs if spec.kind in kinds]

    def _outputs(self, *kinds) -> list:
        return [spec for spec in self.output_specs if spec.kind in kinds]

    def _targets(self, *kinds) -> tuple:
        return tuple(spec.target for spec in self._inputs(*kinds) if isinstance(spec.target, str))

    def _map(self, specs: list) -> MappingProxyType:
        return MappingProxyType({spec.arg.name: spec.target for spec in specs})

    parameters = property(lambda self: self._targets(InputKind.PARAMETER))
    buffers = property(lambda self: self._targets(InputKind.BUFFER))
    lifted_tensor_constants = property(lambda self: self._targets(InputKind.CONSTANT_TENSOR))
    lifted_custom_objs = property(lambda self: self._targets(InputKind.CUSTOM_OBJ))
    user_inputs = property(lambda self: tuple(_value_of(spec.arg) for spec in self._inputs(InputKind.USER_INPUT)))
    user_outputs = property(
        lambda self: tuple(
            _value_of(spec.arg) for spec in self._outputs(OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT)
        )
    )
    inputs_to_parameters = property(lambda self: self._map(self._inputs(InputKind.PARAMETER)))
    inputs_to_buffers = property(lambda self: self._map(self._inputs(InputKind.BUFFER)))
    inputs_to_lifted_tensor_constants = property(lambda self: self._map(self._inputs(InputKind.CONSTANT_TENSOR)))
    inputs_to_lifted_custom_objs = property(lambda self: self._map(self._inputs(InputKind.CUSTOM_OBJ)))
    buffers_to_mutate = property(lambda self: self._map(self._outputs(OutputKind.BUFFER_MUTATION)))
    parameters_to_mutate = property(lambda self: self._map(self._outputs(OutputKind.PARAMETER_MUTATION)))
    user_inputs_to_mutate = property(lambda self: self._map(self._outputs(OutputKind.USER_INPUT_MUTATION)))
    input_tokens = property(lambda self: tuple(spec.arg.name for spec in self._inputs(InputKind.TOKEN)))
    output_tokens = property(lambda self: tuple(spec.arg.name for spec in self._outputs(OutputKind.TOKEN)))
    assertion_dep_token = property(lambda self: None)

    @property
    def non_persistent_buffers(self) -> set:
        """The buffers that state_dict does not hold."""
        return {spec.target for spec in self._inputs(InputKind.BUFFER) if not spec.persistent}

    @property
    def backward_signature(self) -> ExportBackwardSignature | None:
        """Of a graph with gradients; None: it has none."""
        loss = self._outputs(OutputKind.LOSS_OUTPUT)
        if not loss:
            return None
        return ExportBackwardSignature(
            dict(self._map(self._outputs(OutputKind.GRADIENT_TO_PARAMETER))),
            dict(self._map(self._outputs(OutputKind.GRADIENT_TO_USER_INPUT))),
            loss[0].arg.name,
        )

    def replace_all_uses(self, old: str, new: str) -> None:
        """Has the specs of the node `old` name `new`."""
        if not isinstance(old, str) or not isinstance(new, str):
            raise AssertionError("expected the names of two nodes")
        for spec in (*self.input_specs, *self.output_specs):
            if getattr(spec.arg, "name", None) == old:
                spec.arg.name = new

    def get_replace_hook(self, replace_inputs: bool = False):
        """hook(old, new, user): replace_all_uses where `user` is the graph's output, of inputs too where wanted."""

        def hook(old, new, user) -> None:
            if user.op == "output":
                self.replace_all_uses(old.name, new)
            if replace_inputs and old.op == "placeholder":
                self.replace_all_uses(old.name, new)

        return hook

    def __str__(self) -> str:
        inputs, outputs = "\n".join(map(str, self.input_specs)), "\n".join(map(str, self.output_specs))
        return f"\n# inputs\n{inputs}\n\n# outputs\n{outputs}\n"
