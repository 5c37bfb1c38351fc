"""Numbers as they are after rounding to a few integers: what training for quantised inference computes.
Quantised tensors are not there."""

from . import _C


def _rounded(x, at, scale, zero_point, quant_min: int, quant_max: int):
    """`at`, where `x` lies among the integers, in the numbers of `x`; what is outside of them has the gradient 0."""
    made = (at.clamp(quant_min, quant_max) - zero_point) * scale
    if not (x.requires_grad and _C.is_grad_enabled()):
        return made.to(x.dtype)
    inside = (at >= quant_min) & (at <= quant_max)
    return made.to(x.dtype) + _C.where(inside, x - x.detach(), 0.0).to(x.dtype)


def _check(x, kind: str, quant_min: int, quant_max: int) -> None:
    if not isinstance(x, _C.TensorBase):
        raise TypeError(f"fake_quantize: argument 'input' (position 1) must be Tensor, not {type(x).__name__}")
    if quant_min > quant_max:
        raise RuntimeError("`quant_min` should be less than or         equal to `quant_max`.")
    if not x.is_floating_point():
        name = f"fake_quantize_{kind}_type_handling"
        raise NotImplementedError(f"\"{name}\" not implemented for '{x.dtype.kind}'")


def fake_quantize_per_tensor_affine(input, scale, zero_point, quant_min: int, quant_max: int):
    """`(clamp(round(input/scale) + zero_point, quant_min, quant_max) - zero_point)*scale`; scale and zero_point are
    numbers or tensors of one."""
    _check(input, "tensor_cachemask_kernel", quant_min, quant_max)
    if not isinstance(scale, _C.TensorBase):
        if not quant_min <= zero_point <= quant_max:
            raise RuntimeError("`zero_point` must be between `quant_min` and `quant_max`.")
        scale = _C.full((), scale, dtype=_C.float32, device=input.device)
    if isinstance(zero_point, _C.TensorBase):
        zero_point = zero_point.reshape(()).to(_C.int64)
    scale = scale.reshape(()).detach()
    at = (input.detach() * scale.reciprocal()).round() + zero_point
    return _rounded(input, at, scale, zero_point, quant_min, quant_max)


def fake_quantize_per_channel_affine(input, scale, zero_point, axis: int, quant_min: int, quant_max: int):
    """The same with a scale and a zero point for each place along dimension `axis`; those that are floats are added
    before rounding."""
    if scale.dtype is not _C.float32 and scale.dtype is not _C.bfloat16:
        raise RuntimeError(f"Scale must be Float or BFloat16, found {scale.dtype.kind}")
    if zero_point.dtype not in (_C.int32, _C.float32, _C.float16):
        raise RuntimeError(f"Zero-point must be Int32, Float or Half, found {zero_point.dtype.kind}")
    if scale.dim() != 1:
        raise RuntimeError("scale should be a 1-D tensor")
    if zero_point.dim() != 1:
        raise RuntimeError("zero point should be a 1-D tensor")
    if scale.numel() != zero_point.numel():
        raise RuntimeError("scale and zero-point need to have the same dimensions")
    if not -input.dim() <= axis < input.dim():
        least, most = -input.dim(), input.dim() - 1
        raise IndexError(f"Dimension out of range (expected to be in range of [{least}, {most}], but got {axis})")
    if scale.numel() != input.size(axis):
        raise RuntimeError("dimensions of scale and zero-point are not consistent with input tensor")
    _check(input, "channel_cachemask_cpu", quant_min, quant_max)
    if zero_point.dtype is _C.int32 and bool(((zero_point < quant_min) | (zero_point > quant_max)).any()):
        raise RuntimeError("`zero_point` must be between `quant_min` and `quant_max`.")
    if not 0 <= axis < input.dim():
        raise RuntimeError("`axis` must be between 0 and number of dimensions of input")
    size = [1] * input.dim()
    size[axis] = -1
    scale, zero_point = scale.detach().view(size), zero_point.view(size)
    at = input.detach() * scale.reciprocal()
    at = at.round() + zero_point if zero_point.dtype is _C.int32 else (at + zero_point).round()
    return _rounded(input, at, scale, zero_point, quant_min, quant_max)


def dequantize(input):
    """Of a tensor, which is not quantised, its numbers in float32."""
    return input.to(_C.float32)
