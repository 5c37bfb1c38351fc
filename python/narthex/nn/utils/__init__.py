"""torch.nn.utils: gradients of many parameters at once, and parameters as one vector."""

from ..._absent import absent
from ..._later import keep_whole
from . import rnn
from .clip_grad import clip_grad_norm, clip_grad_norm_, clip_grad_value_, get_total_norm
from .convert_parameters import parameters_to_vector, vector_to_parameters

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "get_total_norm"]
_norms = "abs div maximum minimum pow sqrt"
keep_whole(globals(), {name: "maximum minimum" if name == "clip_grad_value_" else _norms for name in list(__all__)})
__all__ += ["parameters_to_vector", "rnn", "vector_to_parameters"]


def __getattr__(name: str):
    raise absent("torch.nn.utils", name, f"it has {', '.join(__all__)} so far")
