"""The decompositions of operators that have kernels of their own."""

import math

import narthex as torch

from .._ops import ops
from . import register_decomposition

aten = ops.aten


def _wide(x):
    """`x` in the dtype that sums of it are taken in."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


@register_decomposition(aten.addmm.default)
def addmm(self, mat1, mat2, *, beta=1, alpha=1):
    product = torch.mm(mat1, mat2)
    product = product if alpha == 1 else product * alpha
    return product if beta == 0 else product + (self if beta == 1 else self * beta)


@register_decomposition(aten._softmax.default)
def _softmax(x, dim, half_to_float):
    wide = x.float() if half_to_float else _wide(x)
    powers = torch.exp(wide - torch.amax(wide, [dim], keepdim=True)) if x.numel() else torch.exp(wide)
    result = powers / torch.sum(powers, [dim], keepdim=True)
    return result if half_to_float else result.to(x.dtype)


@register_decomposition(aten._log_softmax.default)
def _log_softmax(x, dim, half_to_float):
    wide = x.float() if half_to_float else _wide(x)
    shifted = wide - torch.amax(wide, [dim], keepdim=True) if x.numel() else wide
    result = shifted - torch.log(torch.sum(torch.exp(shifted), [dim], keepdim=True))
    return result if half_to_float else result.to(x.dtype)


@register_decomposition(aten._softmax_backward_data.default)
def _softmax_backward_data(grad_output, output, dim, input_dtype):
    part = grad_output * output
    return (part - output * torch.sum(part, [dim], keepdim=True)).to(input_dtype)


@register_decomposition(aten._log_softmax_backward_data.default)
def _log_softmax_backward_data(grad_output, output, dim, input_dtype):
    return (grad_output - torch.exp(output) * torch.sum(grad_output, [dim], keepdim=True)).to(input_dtype)


@register_decomposition(aten.native_layer_norm.default)
def native_layer_norm(input, normalized_shape, weight, bias, eps):
    dims, wide = list(range(input.ndim - len(normalized_shape), input.ndim)), _wide(input)
    mean = torch.mean(wide, dims, keepdim=True)
    shifted = wide - mean
    rstd = torch.rsqrt(torch.mean(shifted * shifted, dims, keepdim=True) + eps)
    out = shifted * rstd
    out = out if weight is None else out * weight
    out = out if bias is None else out + bias
    return out.to(input.dtype), mean, rstd


@register_decomposition(aten.gelu.default)
def gelu(self, *, approximate="none"):
    x = _wide(self)
    if approximate == "tanh":
        inner = (x + 0.044715 * x * x * x) * math.sqrt(2 / math.pi)
        return (0.5 * x * (1 + torch.tanh(inner))).to(self.dtype)
    return (0.5 * x * (1 + torch.erf(x * math.sqrt(0.5)))).to(self.dtype)


@register_decomposition(aten.gelu_backward.default)
def gelu_backward(grad_output, self, *, approximate="none"):
    g, x = _wide(grad_output), _wide(self)
    if approximate == "tanh":
        factor = math.sqrt(2 / math.pi)
        t = torch.tanh((x + 0.044715 * x * x * x) * factor)
        slope = 0.5 * x * (1 - t * t) * factor * (1 + 3 * 0.044715 * x * x)
        return (g * (0.5 * (1 + t) + slope)).to(self.dtype)
    below = 0.5 * (1 + torch.erf(x * math.sqrt(0.5)))
    return (g * (below + x * torch.exp(x * x * -0.5) / math.sqrt(2 * math.pi))).to(self.dtype)


@register_decomposition(aten.silu.default)
def silu(self):
    x = _wide(self)
    return (x * torch.sigmoid(x)).to(self.dtype)


@register_decomposition(aten.silu_backward.default)
def silu_backward(grad_output, self):
    g, x = _wide(grad_output), _wide(self)
    s = torch.sigmoid(x)
    return (g * s * (1 + x * (1 - s))).to(self.dtype)


@register_decomposition(aten.mish.default)
def mish(self):
    x = _wide(self)
    return (x * torch.tanh(torch.log1p(torch.exp(x)))).to(self.dtype)


@register_decomposition(aten.softplus.default)
def softplus(self, beta=1, threshold=20):
    scaled = self * beta
    return torch.where(scaled > threshold, self, torch.log1p(torch.exp(scaled)) / beta)


@register_decomposition(aten.elu.default)
def elu(self, alpha=1, scale=1, input_scale=1):
    return torch.where(self > 0, self * scale, torch.expm1(self * input_scale) * (alpha * scale))


@register_decomposition(aten.leaky_relu.default)
def leaky_relu(self, negative_slope=0.01):
    return torch.where(self > 0, self, self * negative_slope)


@register_decomposition(aten.hardtanh.default)
def hardtanh(self, min_val=-1, max_val=1):
    return torch.clamp(self, min_val, max_val)


@register_decomposition(aten.hardsigmoid.default)
def hardsigmoid(self):
    x = _wide(self)
    return (torch.clamp(x + 3, 0, 6) / 6).to(self.dtype)


@register_decomposition(aten.hardswish.default)
def hardswish(self):
    x = _wide(self)
    return (x * torch.clamp(x + 3, 0, 6) / 6).to(self.dtype)


@register_decomposition(aten.relu.default)
def relu(self):
    return torch.clamp(self, min=0)


@register_decomposition(aten.sigmoid_backward.default)
def sigmoid_backward(grad_output, output):
    return grad_output * (output * (1 - output))


@register_decomposition(aten.tanh_backward.default)
def tanh_backward(grad_output, output):
    return grad_output * (1 - output * output)


@register_decomposition(aten.threshold_backward.default)
def threshold_backward(grad_output, self, threshold):
    return torch.where(self <= threshold, 0, grad_output)


@register_decomposition(aten.rsub.Scalar)
@register_decomposition(aten.rsub.Tensor)
def rsub(self, other, alpha=1):
    return torch.sub(other, self, alpha=alpha) if isinstance(other, torch.Tensor) else torch.neg(self * alpha) + other


@register_decomposition(aten.lerp.Scalar)
@register_decomposition(aten.lerp.Tensor)
def lerp(self, end, weight):
    return self + weight * (end - self)


@register_decomposition(aten.addcmul.default)
def addcmul(self, tensor1, tensor2, *, value=1):
    return self + value * tensor1 * tensor2


@register_decomposition(aten.addcdiv.default)
def addcdiv(self, tensor1, tensor2, *, value=1):
    return self + value * (tensor1 / tensor2)


@register_decomposition(aten.t.default)
def t(self):
    return self if self.ndim < 2 else torch.permute(self, [1, 0])


@register_decomposition(aten.transpose.int)
def transpose(self, dim0, dim1):
    dims = list(range(self.ndim))
    if dims:
        dims[dim0], dims[dim1] = dims[dim1], dims[dim0]
    return torch.permute(self, dims)


@register_decomposition(aten.select_backward.default)
def select_backward(grad_output, input_sizes, dim, index):
    return torch.select_scatter(grad_output.new_zeros(input_sizes), grad_output, dim, index)


@register_decomposition(aten.slice_backward.default)
def slice_backward(grad_output, input_sizes, dim, start, end, step):
    return torch.slice_scatter(grad_output.new_zeros(input_sizes), grad_output, dim, start, end, step)
