"""What stands for an input of an exported program's graph that its caller does not give."""

__all__ = [
    "get_buffer", "get_lifted_tensor_constant", "get_param", "is_buffer", "is_lifted_tensor_constant", "is_param",
]  # fmt: skip


def is_param(program, node) -> bool:
    """Whether the node is a parameter."""
    return node.name in program.graph_signature.inputs_to_parameters


def get_param(program, node):
    """The parameter that the node is, or None."""
    names = program.graph_signature.inputs_to_parameters
    return program.state_dict[names[node.name]] if node.name in names else None


def is_buffer(program, node) -> bool:
    """Whether the node is a buffer."""
    return node.name in program.graph_signature.inputs_to_buffers


def get_buffer(program, node):
    """The buffer that the node is, or None."""
    if not is_buffer(program, node):
        return None
    name = program.graph_signature.inputs_to_buffers[node.name]
    kept = name not in program.graph_signature.non_persistent_buffers
    return (program.state_dict if kept else program.constants)[name]


def is_lifted_tensor_constant(program, node) -> bool:
    """Whether the node is a tensor that the program's code names."""
    return node.name in program.graph_signature.inputs_to_lifted_tensor_constants


def get_lifted_tensor_constant(program, node):
    """The tensor of the program's code that the node is, or None."""
    names = program.graph_signature.inputs_to_lifted_tensor_constants
    return program.constants[names[node.name]] if node.name in names else None
