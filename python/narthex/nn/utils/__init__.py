"""torch.nn.utils: gradients of many parameters at once, parameters as one vector, and what changes modules."""

from ..._absent import absent
from . import rnn
from .clip_grad import clip_grad_norm, clip_grad_norm_, clip_grad_value_, clip_grads_with_norm_, get_total_norm
from .convert_parameters import parameters_to_vector, vector_to_parameters
from .spectral_norm import remove_spectral_norm, spectral_norm  # a function stands where its module would
from .weight_norm import remove_weight_norm, weight_norm

__all__ = [
    "clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm",
    "parameters_to_vector", "remove_spectral_norm", "remove_weight_norm", "rnn", "spectral_norm",
    "vector_to_parameters", "weight_norm",
]  # fmt: skip
_MODULES = (
    "_expanded_weights", "fusion", "init", "memory_format", "parametrizations", "parametrize", "prune", "stateless",
)  # fmt: skip
_LAZY = {
    "convert_conv2d_weight_memory_format": "memory_format", "convert_conv3d_weight_memory_format": "memory_format",
    "fuse_conv_bn_eval": "fusion", "fuse_conv_bn_weights": "fusion", "fuse_linear_bn_eval": "fusion",
    "fuse_linear_bn_weights": "fusion", "skip_init": "init",
}  # fmt: skip


def __getattr__(name: str):
    from importlib import import_module

    if name in _LAZY:
        value = globals()[name] = getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
        return value
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    raise absent("torch.nn.utils", name, f"it has {', '.join([*__all__, *_LAZY, *_MODULES])} so far")


def __dir__() -> list:
    return sorted({*globals(), *_LAZY, *_MODULES})
