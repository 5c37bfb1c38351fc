"""The decompositions of operators that have kernels of their own."""

import math

import narthex as torch

from .._ops import ops
from . import register_decomposition

aten = ops.aten


def _wide(x):
    """`x` in the dtype that sums of it are taken in."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def _where(condition, one, other):
    """torch.where with tensors for numbers, as the operator has it."""
    if not isinstance(one, torch.Tensor):
        one = torch.full([], one, dtype=other.dtype, device=other.device)
    if not isinstance(other, torch.Tensor):
        other = torch.full([], other, dtype=one.dtype, device=one.device)
    return torch.where(condition, one, other)


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
    return _where(self <= threshold, 0, grad_output)


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


# ---- backward passes of norms and losses ----------------------------------------------------------------------------
@register_decomposition(aten.native_layer_norm_backward.default)
def native_layer_norm_backward(grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask):
    inner = list(range(input.ndim - len(normalized_shape), input.ndim))
    outer = list(range(input.ndim - len(normalized_shape)))
    g, x = _wide(grad_out), (_wide(input) - mean) * rstd
    of_input = of_weight = of_bias = None
    if output_mask[0]:
        h = g if weight is None else g * weight
        middle = torch.mean(h, inner, keepdim=True) + x * torch.mean(h * x, inner, keepdim=True)
        of_input = ((h - middle) * rstd).to(input.dtype)
    if output_mask[1] and weight is not None:
        of_weight = (torch.sum(g * x, outer) if outer else g * x).to(weight.dtype)
    if output_mask[2] and bias is not None:
        of_bias = (torch.sum(g, outer) if outer else g.clone()).to(bias.dtype)
    return of_input, of_weight, of_bias


def _classes(self, target, ignore_index):
    """The dimension of the classes, the targets with it, and which of them count."""
    dim = 0 if self.ndim < 2 else 1
    target = target.unsqueeze(dim)
    counts = target != ignore_index
    return dim, _where(counts, target, 0), counts


def _spread(weight, ndim, dim):
    return weight.view([-1 if d == dim else 1 for d in range(ndim)])


@register_decomposition([aten.nll_loss_forward.default, aten.nll_loss2d_forward.default])
def nll_loss_forward(self, target, weight, reduction, ignore_index):
    dim, safe, counts = _classes(self, target, ignore_index)
    shares = None if weight is None else torch.gather(_spread(weight, self.ndim, dim).expand(self.shape), dim, safe)
    losses = -torch.gather(self if weight is None else self * _spread(weight, self.ndim, dim), dim, safe)
    losses = _where(counts, losses, 0).squeeze(dim)
    if reduction == 0 and self.ndim > 1:
        return losses, self.new_zeros(())
    total = torch.sum(counts).to(self.dtype) if shares is None else torch.sum(_where(counts, shares, 0))
    return torch.sum(losses) / total if reduction == 1 else torch.sum(losses), total


@register_decomposition([aten.nll_loss_backward.default, aten.nll_loss2d_backward.default])
def nll_loss_backward(grad_output, self, target, weight, reduction, ignore_index, total_weight):
    dim, safe, counts = _classes(self, target, ignore_index)
    g = grad_output / total_weight if reduction == 1 else grad_output
    slope = torch.scatter(torch.zeros_like(self), dim, safe, -1.0)
    slope = slope if weight is None else slope * _spread(weight, self.ndim, dim)
    return slope * _where(counts, g.unsqueeze(dim) if g.ndim else g, 0)


@register_decomposition(aten.embedding_dense_backward.default)
def embedding_dense_backward(grad_output, indices, num_weights, padding_idx, scale_grad_by_freq):
    g, indices = _wide(grad_output), indices.long()
    if scale_grad_by_freq:
        ones = torch.ones_like(indices)
        counts = torch.index_put(indices.new_zeros((num_weights,)), [indices], ones, accumulate=True)
        g = g / counts[indices].unsqueeze(-1)
    g = _where((indices == padding_idx).unsqueeze(-1), 0, g)
    table = g.new_zeros((num_weights, *grad_output.shape[indices.ndim :]))
    return torch.index_put(table, [indices], g, accumulate=True).to(grad_output.dtype)


# ---- functions of an element ----------------------------------------------------------------------------------------
@register_decomposition(aten.hardtanh_backward.default)
def hardtanh_backward(grad_output, self, min_val, max_val):
    return _where((self <= min_val) | (self >= max_val), 0.0, grad_output)


@register_decomposition(aten.hardswish_backward.default)
def hardswish_backward(grad_output, self):
    g, x = _wide(grad_output), _wide(self)
    return _where(x <= -3, 0.0, _where(x < 3, g * (x / 3 + 0.5), g)).to(self.dtype)


@register_decomposition(aten.hardsigmoid_backward.default)
def hardsigmoid_backward(grad_output, self):
    return _where((self > -3.0) & (self < 3.0), grad_output * (1.0 / 6.0), 0.0)


@register_decomposition(aten.softplus_backward.default)
def softplus_backward(grad_output, self, beta, threshold):
    z = torch.exp(self * beta)
    return _where(self * beta > threshold, grad_output, grad_output * z / (z + 1.0))


@register_decomposition(aten.celu.default)
def celu(self, alpha=1):
    return _where(self > 0, self, torch.expm1(self / alpha) * alpha)


@register_decomposition(aten.threshold.default)
def threshold(self, threshold, value):
    return _where(self <= threshold, value, self)


@register_decomposition(aten.hardshrink.default)
def hardshrink(self, lambd=0.5):
    return _where(torch.abs(self) <= lambd, 0.0, self)


@register_decomposition(aten.softshrink.default)
def softshrink(self, lambd=0.5):
    return _where(torch.abs(self) > lambd, self - torch.sign(self) * lambd, self * 0)


@register_decomposition([aten.masked_fill.Scalar, aten.masked_fill.Tensor])
def masked_fill(self, mask, value):
    return _where(mask, value, self).to(self.dtype)


@register_decomposition(aten.deg2rad.default)
def deg2rad(self):
    return self * (math.pi / 180)


@register_decomposition(aten.rad2deg.default)
def rad2deg(self):
    return self * (180 / math.pi)


@register_decomposition(aten.frac.default)
def frac(self):
    return self - torch.trunc(self)


@register_decomposition(aten.xlogy.Tensor)
def xlogy(self, other):
    return _where(torch.isnan(other), math.nan, _where(self == 0, 0.0, self * torch.log(other)))


@register_decomposition(aten.logaddexp.default)
def logaddexp(self, other):
    most, least = _where(self >= other, self, other), _where(self >= other, other, self)
    return _where(torch.isinf(most) & (self == other), self, most + torch.log1p(torch.exp(least - most)))


@register_decomposition(aten.dot.default)
def dot(self, tensor):
    return torch.sum(self * tensor)


@register_decomposition(aten.mv.default)
def mv(self, vec):
    return torch.sum(self * vec, [1])


# ---- shapes ---------------------------------------------------------------------------------------------------------
@register_decomposition(aten.stack.default)
def stack(tensors, dim=0):
    return torch.cat([each.unsqueeze(dim) for each in tensors], dim if dim >= 0 else dim + tensors[0].ndim + 1)


@register_decomposition(aten.unbind.int)
def unbind(self, dim=0):
    return [torch.select(self, dim, k) for k in range(self.shape[dim])]


@register_decomposition(aten.roll.default)
def roll(self, shifts, dims=()):
    if not dims:
        return roll(self.flatten(), shifts, [0]).view(self.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        n = self.shape[dim]
        first = (n - shift) % n if n else 0
        places = (torch.arange(n, device=self.device) + first) % n if n else None
        self = self.clone() if places is None else torch.index_select(self, dim, places)
    return self


@register_decomposition([aten.tril.default])
def tril(self, diagonal=0):
    return _where(_below(self) <= diagonal, self, 0).to(self.dtype)


@register_decomposition([aten.triu.default])
def triu(self, diagonal=0):
    return _where(_below(self) >= diagonal, self, 0).to(self.dtype)


def _below(x):
    """How far right of the diagonal each place lies."""
    rows, columns = torch.arange(x.shape[-2], device=x.device), torch.arange(x.shape[-1], device=x.device)
    return columns - rows.unsqueeze(-1)
