"""Operators of torch that the CPU has no kernel for, nor has PyTorch's: those of cuDNN, MIOpen and vulkan, those of
oneDNN's own layout, and what quantised and nested tensors alone answer. Calling one raises what PyTorch raises."""

from enum import IntEnum

from . import _C

_NAMES = """
    batch_norm_backward_elemt batch_norm_backward_reduce batch_norm_elemt batch_norm_gather_stats
    batch_norm_gather_stats_with_counts batch_norm_stats cudnn_affine_grid_generator cudnn_batch_norm
    cudnn_convolution cudnn_convolution_add_relu cudnn_convolution_relu cudnn_convolution_transpose cudnn_grid_sampler
    miopen_batch_norm miopen_convolution miopen_convolution_add_relu miopen_convolution_relu
    miopen_convolution_transpose miopen_ctc_loss miopen_depthwise_convolution miopen_rnn mkldnn_adaptive_avg_pool2d
    mkldnn_linear_backward_weights mkldnn_max_pool2d mkldnn_max_pool3d quantized_batch_norm quantized_max_pool1d
    quantized_max_pool2d quantized_max_pool3d
""".split()
_OF_TENSORS = "int_repr q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale q_zero_point".split()
NAMES = (*_NAMES, *_OF_TENSORS)


def refuse(name: str, tensor):
    """Raises what a call of the operator `name` on a tensor does."""
    raise NotImplementedError(
        f"Could not run 'aten::{name}' with arguments from the '{tensor.device.type.upper()}' backend: the operator is "
        "there for other devices, or for quantised and nested tensors alone"
    )


def _without_kernel(name: str):
    def operator(input, *args, **kwargs):
        if not isinstance(input, _C.TensorBase):
            raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
        refuse(name, input)

    operator.__name__ = operator.__qualname__ = name
    operator.__doc__ = "Raises NotImplementedError: the CPU has no such kernel."
    return operator


globals().update({name: _without_kernel(name) for name in NAMES})


def cudnn_is_acceptable(tensor) -> bool:
    """False: there is no cuDNN."""
    if not isinstance(tensor, _C.TensorBase):
        raise TypeError(
            f"cudnn_is_acceptable(): argument 'tensor' (position 1) must be Tensor, not {type(tensor).__name__}"
        )
    return False


def is_vulkan_available() -> bool:
    """False."""
    return False


def mkldnn_convolution(input, weight, bias, padding, stride, dilation, groups):
    """A convolution; PyTorch's is oneDNN's."""
    return _C.convolution(input, weight, bias, stride, padding, dilation, False, [0], groups)


class AggregationType(IntEnum):
    """How results of several devices become one."""

    SUM = 0
    AVG = 1


SUM, AVG = AggregationType


class qscheme:  # noqa: N801  (PyTorch's name)
    """How numbers are put among integers: one scale and zero point, or one for each channel. Quantised tensors are not
    there; observers of numbers say by it what they found."""

    def __new__(cls, *args, **kwargs):
        raise TypeError("cannot create 'torch.qscheme' instances")

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name


qscheme.__module__ = "torch"
SCHEMES = (
    "per_channel_affine", "per_channel_affine_float_qparams", "per_channel_symmetric", "per_tensor_affine",
    "per_tensor_symmetric",
)  # fmt: skip
for _name in SCHEMES:
    globals()[_name] = object.__new__(qscheme)
    globals()[_name].name = _name
