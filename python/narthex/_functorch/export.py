"""aot_export_module, aot_export_joint_simple: the graphs of AOT for somebody else, without anything that runs them."""

from dataclasses import dataclass, field
from typing import Any


@dataclass
class BackwardSignature:
    """Which results of the graph are gradients, by name, and which is the loss."""

    gradients_to_parameters: dict
    gradients_to_user_inputs: dict
    loss_output: str


@dataclass
class GraphSignature:
    """What the placeholders and results of an exported graph are, by name."""

    parameters: list
    buffers: list
    user_inputs: list
    user_outputs: list
    inputs_to_parameters: dict
    inputs_to_buffers: dict
    buffers_to_mutate: dict
    parameters_to_mutate: dict
    user_inputs_to_mutate: dict
    in_spec: Any
    out_spec: Any
    backward_signature: BackwardSignature | None
    input_tokens: list = field(default_factory=list)
    output_tokens: list = field(default_factory=list)


def aot_export_module(mod, args, *, trace_joint, output_loss_index=None, decompositions=None, **others):
    """Not there yet: raises NotImplementedError; torch.export.export captures a module."""
    raise NotImplementedError("aot_export_module is not there yet: use aot_module, or torch.export.export")


def aot_export_joint_simple(func, args, *, trace_joint, num_params_buffers=0, decompositions=None):
    """Not there yet: raises NotImplementedError."""
    raise NotImplementedError("aot_export_joint_simple is not there yet: use aot_function with a partition_fn")
