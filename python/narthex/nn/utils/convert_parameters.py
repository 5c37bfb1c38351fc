"""All parameters as one vector, and back."""

from ... import _C


def _one_device(parameters: list) -> None:
    if len({parameter.device for parameter in parameters}) > 1:
        raise TypeError("Found two parameters on different devices, this is currently not supported.")


def parameters_to_vector(parameters):
    """The elements of all parameters, one after the other."""
    parameters = list(parameters)
    _one_device(parameters)
    return _C.cat([parameter.view(-1) for parameter in parameters])


def vector_to_parameters(vec, parameters) -> None:
    """Gives each parameter its part of the vector: views of it, not copies."""
    if not isinstance(vec, _C.TensorBase):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec).__name__}")
    parameters, at = list(parameters), 0
    _one_device(parameters)
    for parameter in parameters:
        n = parameter.numel()
        parameter.data = vec[at : at + n].view_as(parameter).data
        at += n
