"""torch_npu: importing it loads the npu plugin and adds `.npu()` to tensors and modules, and torch.npu.

The device of the package is the reference accelerator, which computes in software and is otherwise a device like
others: memory that the host cannot touch, streams, capture and replay.
"""

import sys

import narthex

from ... import _C
from ..._later import names
from ..._paths import plugin_path
from ..._tensor import Tensor
from ...nn import Module

if "npu" not in _C.device_types():
    _C.load_plugin(plugin_path("npu"))

from . import npu  # noqa: E402  (asks the plugin)

narthex.npu = npu
sys.modules["narthex.npu"] = npu


def _device(device) -> _C.device:
    if device is None:
        return _C.current_device("npu")
    return _C.device("npu", device) if isinstance(device, int) else _C.device(device)


def _tensor_npu(self, device=None, non_blocking: bool = False, memory_format=None):
    """This tensor in the memory of an npu: of the current one, or of `device`."""
    return self.to(_device(device))


def _module_npu(self, device=None):
    """Moves parameters and buffers to an npu: the current one, or `device`. Returns self."""
    target = _device(device)
    return self._apply(lambda tensor: tensor.to(target))


Tensor.npu = _tensor_npu
Tensor.is_npu = property(lambda self: self.device.type == "npu", doc="Whether the tensor lies on an npu.")
Module.npu = _module_npu


def fallbacks() -> dict:
    """Operators that the device lacks and that ran on the CPU instead, with how often."""
    return dict(_C.fallbacks())


_LATER = (
    "npu_format_cast", "npu_change_data_ptr", "get_npu_format", "empty_with_format", "unsafe_empty_with_format",
    "npu_layer_norm_eval", "npu_fused_attention_score_grad", "npu_quant_conv2d", "npu_view_copy",
    "npu_bmm_v2_mat1_backward", "npu_fused_attention_layernorm_qkv_fwd", "npu_fast_gelu", "npu_fast_gelu_backward",
)  # fmt: skip


globals().update(names("torch_npu", "operators of the npu's own", _LATER))


def __getattr__(name: str):
    if name == "dynamo":
        from importlib import import_module

        return import_module(f"{__name__}.dynamo")
    raise AttributeError(f"module 'torch_npu' has no attribute '{name}': Narthex does not have it")
