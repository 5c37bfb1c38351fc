"""The functions and layers of torch.nn as torch.jit.script writes them: by operators, with their settings as constants.

Our own sources are no TorchScript. What is known when code is written, such as `self.stride` of a layer or the default
of an argument, is put in as its value, and branches that hang on it fall away.
"""

import ast

FUNCTIONS = """
relu = lambda input, inplace=False: torch.relu_(input) if inplace else torch.relu(input)
relu6 = lambda input, inplace=False: torch.hardtanh_(input, 0.0, 6.0) if inplace else torch.hardtanh(input, 0.0, 6.0)
hardtanh = (lambda input, min_val=-1.0, max_val=1.0, inplace=False:
    torch.hardtanh_(input, min_val, max_val) if inplace else torch.hardtanh(input, min_val, max_val))
leaky_relu = (lambda input, negative_slope=0.01, inplace=False:
    torch.leaky_relu_(input, negative_slope) if inplace else torch.leaky_relu(input, negative_slope))
elu = lambda input, alpha=1.0, inplace=False: torch.elu_(input, alpha) if inplace else torch.elu(input, alpha)
selu = lambda input, inplace=False: torch.selu_(input) if inplace else torch.selu(input)
celu = lambda input, alpha=1.0, inplace=False: torch.celu_(input, alpha) if inplace else torch.celu(input, alpha)
silu = lambda input, inplace=False: torch.silu_(input) if inplace else torch.silu(input)
mish = lambda input, inplace=False: torch.mish_(input) if inplace else torch.mish(input)
hardswish = lambda input, inplace=False: torch.hardswish_(input) if inplace else torch.hardswish(input)
hardsigmoid = lambda input, inplace=False: torch.hardsigmoid_(input) if inplace else torch.hardsigmoid(input)
threshold = (lambda input, threshold, value, inplace=False:
    torch.threshold_(input, threshold, value) if inplace else torch.threshold(input, threshold, value))
gelu = lambda input, approximate="none": torch.gelu(input, approximate=approximate)
logsigmoid = lambda input: torch.log_sigmoid(input)
softplus = lambda input, beta=1.0, threshold=20.0: torch.softplus(input, beta, threshold)
softshrink = lambda input, lambd=0.5: torch.softshrink(input, lambd)
hardshrink = lambda input, lambd=0.5: torch.hardshrink(input, lambd)
prelu = lambda input, weight: torch.prelu(input, weight)
glu = lambda input, dim=-1: torch.glu(input, dim)
sigmoid = lambda input: torch.sigmoid(input)
tanh = lambda input: torch.tanh(input)
softmax = lambda input, dim, _stacklevel=3, dtype=None: torch.softmax(input, dim, dtype)
softmin = lambda input, dim, _stacklevel=3, dtype=None: torch.softmax(-input, dim, dtype)
log_softmax = lambda input, dim, _stacklevel=3, dtype=None: torch.log_softmax(input, dim, dtype)
dropout = (lambda input, p=0.5, training=True, inplace=False:
    torch.dropout_(input, p, training) if inplace else torch.dropout(input, p, training))
alpha_dropout = lambda input, p=0.5, training=False, inplace=False: torch.alpha_dropout(input, p, training)
dropout1d = lambda input, p=0.5, training=True, inplace=False: torch.feature_dropout(input, p, training)
dropout2d = lambda input, p=0.5, training=True, inplace=False: torch.feature_dropout(input, p, training)
dropout3d = lambda input, p=0.5, training=True, inplace=False: torch.feature_dropout(input, p, training)
linear = lambda input, weight, bias=None: torch.linear(input, weight, bias)
bilinear = lambda input1, input2, weight, bias=None: torch.bilinear(input1, input2, weight, bias)
conv1d = (lambda input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1:
    torch.conv1d(input, weight, bias, stride, padding, dilation, groups))
conv2d = (lambda input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1:
    torch.conv2d(input, weight, bias, stride, padding, dilation, groups))
conv3d = (lambda input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1:
    torch.conv3d(input, weight, bias, stride, padding, dilation, groups))
conv_transpose1d = (lambda input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1:
    torch.conv_transpose1d(input, weight, bias, stride, padding, output_padding, groups, dilation))
conv_transpose2d = (lambda input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1:
    torch.conv_transpose2d(input, weight, bias, stride, padding, output_padding, groups, dilation))
conv_transpose3d = (lambda input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1:
    torch.conv_transpose3d(input, weight, bias, stride, padding, output_padding, groups, dilation))
max_pool1d = (lambda input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False:
    torch.max_pool1d(input, kernel_size, kernel_size if stride is None else stride, padding, dilation, ceil_mode))
max_pool2d = (lambda input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False:
    torch.max_pool2d(input, kernel_size, kernel_size if stride is None else stride, padding, dilation, ceil_mode))
max_pool3d = (lambda input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False:
    torch.max_pool3d(input, kernel_size, kernel_size if stride is None else stride, padding, dilation, ceil_mode))
avg_pool1d = (lambda input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True:
    torch.avg_pool1d(input, kernel_size, kernel_size if stride is None else stride, padding, ceil_mode,
        count_include_pad))
avg_pool2d = (lambda input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True,
    divisor_override=None: torch.avg_pool2d(input, kernel_size, kernel_size if stride is None else stride, padding,
        ceil_mode, count_include_pad, divisor_override))
avg_pool3d = (lambda input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True,
    divisor_override=None: torch.avg_pool3d(input, kernel_size, kernel_size if stride is None else stride, padding,
        ceil_mode, count_include_pad, divisor_override))
adaptive_avg_pool1d = lambda input, output_size: torch.adaptive_avg_pool1d(input, output_size)
adaptive_avg_pool2d = lambda input, output_size: torch.adaptive_avg_pool2d(input, output_size)
adaptive_avg_pool3d = lambda input, output_size: torch.adaptive_avg_pool3d(input, output_size)
adaptive_max_pool1d = lambda input, output_size: torch.adaptive_max_pool1d(input, output_size)[0]
adaptive_max_pool2d = lambda input, output_size: torch.adaptive_max_pool2d(input, output_size)[0]
layer_norm = (lambda input, normalized_shape, weight=None, bias=None, eps=1e-05:
    torch.layer_norm(input, normalized_shape, weight, bias, eps))
rms_norm = lambda input, normalized_shape, weight=None, eps=None: torch.rms_norm(input, normalized_shape, weight, eps)
group_norm = (lambda input, num_groups, weight=None, bias=None, eps=1e-05:
    torch.group_norm(input, num_groups, weight, bias, eps))
batch_norm = (lambda input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-05:
    torch.batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, False))
instance_norm = (lambda input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True,
    momentum=0.1, eps=1e-05:
    torch.instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, False))
embedding = (lambda input, weight, padding_idx=None: torch.embedding(weight, input,
    -1 if padding_idx is None else padding_idx))
pad = lambda input, pad, mode="constant", value=None: torch.pad(input, pad, mode, value)
one_hot = lambda tensor, num_classes=-1: torch.one_hot(tensor, num_classes)
cosine_similarity = lambda x1, x2, dim=1, eps=1e-08: torch.cosine_similarity(x1, x2, dim, eps)
pairwise_distance = (lambda x1, x2, p=2.0, eps=1e-06, keepdim=False: torch.pairwise_distance(x1, x2, p, eps, keepdim))
pixel_shuffle = lambda input, upscale_factor: torch.pixel_shuffle(input, upscale_factor)
pixel_unshuffle = lambda input, downscale_factor: torch.pixel_unshuffle(input, downscale_factor)
scaled_dot_product_attention = (lambda query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None:
    torch.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale=scale))
cross_entropy = (lambda input, target, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0:
    torch.cross_entropy_loss(input, target, weight, 0 if reduction == "none" else 1 if reduction == "mean" else 2,
        ignore_index, label_smoothing))
nll_loss = (lambda input, target, weight=None, ignore_index=-100, reduction="mean":
    torch.nll_loss_nd(input, target, weight, 0 if reduction == "none" else 1 if reduction == "mean" else 2,
        ignore_index))
mse_loss = (lambda input, target, reduction="mean":
    torch.mse_loss(input, target, 0 if reduction == "none" else 1 if reduction == "mean" else 2))
l1_loss = (lambda input, target, reduction="mean":
    torch.l1_loss(input, target, 0 if reduction == "none" else 1 if reduction == "mean" else 2))
smooth_l1_loss = (lambda input, target, reduction="mean", beta=1.0:
    torch.smooth_l1_loss(input, target, 0 if reduction == "none" else 1 if reduction == "mean" else 2, beta))
huber_loss = (lambda input, target, reduction="mean", delta=1.0:
    torch.huber_loss(input, target, 0 if reduction == "none" else 1 if reduction == "mean" else 2, delta))
binary_cross_entropy = (lambda input, target, weight=None, reduction="mean": torch.binary_cross_entropy(input, target,
    weight, 0 if reduction == "none" else 1 if reduction == "mean" else 2))
binary_cross_entropy_with_logits = (lambda input, target, weight=None, reduction="mean", pos_weight=None:
    torch.binary_cross_entropy_with_logits(input, target, weight, pos_weight,
        0 if reduction == "none" else 1 if reduction == "mean" else 2))
kl_div = (lambda input, target, reduction="mean", log_target=False:
    torch.kl_div(input, target, 0 if reduction == "none" else 1 if reduction == "mean" else 2, log_target=log_target))
"""

WRITTEN = """
def softsign(input: Tensor) -> Tensor:
    return input / (torch.abs(input) + 1)
def tanhshrink(input: Tensor) -> Tensor:
    return input - torch.tanh(input)
def normalize(input: Tensor, p: float=2.0, dim: int=1, eps: float=1e-12) -> Tensor:
    return input / torch.clamp_min(torch.norm(input, p, [dim], True), eps)
def interpolate(input: Tensor, size: Optional[List[int]], scale_factor: Optional[List[float]], mode: str,
                align_corners: bool) -> Tensor:
    n = input.dim() - 2
    if size is not None and len(size) == 1:
        size = size * n
    if scale_factor is not None and len(scale_factor) == 1:
        scale_factor = scale_factor * n
    if mode == "nearest":
        if n == 1:
            return torch.upsample_nearest1d(input, size, scale_factor)
        if n == 2:
            return torch.upsample_nearest2d(input, size, scale_factor)
        return torch.upsample_nearest3d(input, size, scale_factor)
    if mode == "linear":
        return torch.upsample_linear1d(input, size, align_corners, scale_factor)
    if mode == "bilinear":
        return torch.upsample_bilinear2d(input, size, align_corners, scale_factor)
    if mode == "bicubic":
        return torch.upsample_bicubic2d(input, size, align_corners, scale_factor)
    if mode == "trilinear":
        return torch.upsample_trilinear3d(input, size, align_corners, scale_factor)
    ops.prim.RaiseException("a script has no interpolate of this mode", "builtins.NotImplementedError")
    raise AssertionError("")
"""

METHODS = """
def Linear(self, input):
    return torch.linear(input, self.weight, self.bias)
def Bilinear(self, input1, input2):
    return torch.bilinear(input1, input2, self.weight, self.bias)
def Identity(self, input):
    return input
def Flatten(self, input):
    return torch.flatten(input, self.start_dim, self.end_dim)
def Embedding(self, input):
    return F.embedding(input, self.weight, self.padding_idx)
def Sequential(self, input):
    for module in self:
        input = module(input)
    return input
def Conv1d(self, input):
    return F.conv1d(input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)
def Conv2d(self, input):
    return F.conv2d(input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)
def Conv3d(self, input):
    return F.conv3d(input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)
def ConvTranspose1d(self, input):
    return F.conv_transpose1d(input, self.weight, self.bias, self.stride, self.padding, self.output_padding,
                              self.groups, self.dilation)
def ConvTranspose2d(self, input):
    return F.conv_transpose2d(input, self.weight, self.bias, self.stride, self.padding, self.output_padding,
                              self.groups, self.dilation)
def ConvTranspose3d(self, input):
    return F.conv_transpose3d(input, self.weight, self.bias, self.stride, self.padding, self.output_padding,
                              self.groups, self.dilation)
def BatchNorm1d(self, input):
    if self.running_mean is None:
        return torch.batch_norm(input, self.weight, self.bias, None, None, True, 0.0, self.eps, False)
    if self.training:
        self.num_batches_tracked.add_(1)
    if self.momentum is None:
        momentum = 1.0 / max(1, int(self.num_batches_tracked))
        return torch.batch_norm(input, self.weight, self.bias, self.running_mean, self.running_var, self.training,
                                momentum, self.eps, False)
    return torch.batch_norm(input, self.weight, self.bias, self.running_mean, self.running_var, self.training,
                            self.momentum, self.eps, False)
def InstanceNorm1d(self, input):
    return torch.instance_norm(input, self.weight, self.bias, self.running_mean, self.running_var,
                               self.training or not self.track_running_stats, self.momentum, self.eps, False)
def LayerNorm(self, input):
    return torch.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)
def RMSNorm(self, input):
    return torch.rms_norm(input, self.normalized_shape, self.weight, self.eps)
def GroupNorm(self, input):
    return torch.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)
def Dropout(self, input):
    return F.dropout(input, self.p, self.training, self.inplace)
def Dropout2d(self, input):
    return F.dropout2d(input, self.p, self.training)
def AlphaDropout(self, input):
    return F.alpha_dropout(input, self.p, self.training)
def ReLU(self, input):
    return F.relu(input, self.inplace)
def Hardtanh(self, input):
    return F.hardtanh(input, self.min_val, self.max_val, self.inplace)
def LeakyReLU(self, input):
    return F.leaky_relu(input, self.negative_slope, self.inplace)
def ELU(self, input):
    return F.elu(input, self.alpha, self.inplace)
def SELU(self, input):
    return F.selu(input, self.inplace)
def CELU(self, input):
    return F.celu(input, self.alpha, self.inplace)
def SiLU(self, input):
    return F.silu(input, self.inplace)
def Mish(self, input):
    return F.mish(input, self.inplace)
def Hardswish(self, input):
    return F.hardswish(input, self.inplace)
def Hardsigmoid(self, input):
    return F.hardsigmoid(input, self.inplace)
def GELU(self, input):
    return F.gelu(input, self.approximate)
def PReLU(self, input):
    return torch.prelu(input, self.weight)
def Sigmoid(self, input):
    return torch.sigmoid(input)
def Tanh(self, input):
    return torch.tanh(input)
def LogSigmoid(self, input):
    return F.logsigmoid(input)
def Softplus(self, input):
    return F.softplus(input, self.beta, self.threshold)
def Softsign(self, input):
    return F.softsign(input)
def GLU(self, input):
    return F.glu(input, self.dim)
def Softmax(self, input):
    return torch.softmax(input, self.dim)
def LogSoftmax(self, input):
    return torch.log_softmax(input, self.dim)
def MaxPool1d(self, input):
    return F.max_pool1d(input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode)
def MaxPool2d(self, input):
    return F.max_pool2d(input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode)
def MaxPool3d(self, input):
    return F.max_pool3d(input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode)
def AvgPool1d(self, input):
    return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)
def AvgPool2d(self, input):
    return F.avg_pool2d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad,
                        self.divisor_override)
def AvgPool3d(self, input):
    return F.avg_pool3d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad,
                        self.divisor_override)
def AdaptiveAvgPool1d(self, input):
    return F.adaptive_avg_pool1d(input, self.output_size)
def AdaptiveAvgPool2d(self, input):
    return F.adaptive_avg_pool2d(input, self.output_size)
def AdaptiveAvgPool3d(self, input):
    return F.adaptive_avg_pool3d(input, self.output_size)
def AdaptiveMaxPool1d(self, input):
    return F.adaptive_max_pool1d(input, self.output_size)
def AdaptiveMaxPool2d(self, input):
    return F.adaptive_max_pool2d(input, self.output_size)
def Upsample(self, input):
    return F.interpolate(input, self.size, self.scale_factor, self.mode, self.align_corners)
def ConstantPad2d(self, input):
    return torch.pad(input, self.padding, "constant", self.value)
def ReflectionPad2d(self, input):
    return torch.pad(input, self.padding, "reflect")
def ReplicationPad2d(self, input):
    return torch.pad(input, self.padding, "replicate")
def PixelShuffle(self, input):
    return torch.pixel_shuffle(input, self.upscale_factor)
def CrossEntropyLoss(self, input, target):
    return F.cross_entropy(input, target, self.weight, self.ignore_index, self.reduction, self.label_smoothing)
def NLLLoss(self, input, target):
    return F.nll_loss(input, target, self.weight, self.ignore_index, self.reduction)
def MSELoss(self, input, target):
    return F.mse_loss(input, target, self.reduction)
def L1Loss(self, input, target):
    return F.l1_loss(input, target, self.reduction)
def BCEWithLogitsLoss(self, input, target):
    return F.binary_cross_entropy_with_logits(input, target, self.weight, self.reduction, self.pos_weight)
def LSTM(self, input, hx: Optional[Tuple[Tensor, Tensor]]=None):
    assert input.dim() == 3, "a scripted LSTM takes a batch of sequences"
    if hx is None:
        batch = input.size(0) if self.batch_first else input.size(1)
        zeros = torch.zeros([self.num_layers * (2 if self.bidirectional else 1), batch, self.hidden_size],
                            dtype=input.dtype, device=input.device)
        hx = (zeros, zeros)
    output, h, c = torch.lstm(input, [hx[0], hx[1]], self._flat_weights, self.bias, self.num_layers, self.dropout,
                              self.training, self.bidirectional, self.batch_first)
    return output, (h, c)
def GRU(self, input, hx: Optional[Tensor]=None):
    assert input.dim() == 3, "a scripted GRU takes a batch of sequences"
    if hx is None:
        batch = input.size(0) if self.batch_first else input.size(1)
        hx = torch.zeros([self.num_layers * (2 if self.bidirectional else 1), batch, self.hidden_size],
                         dtype=input.dtype, device=input.device)
    output, h = torch.gru(input, hx, self._flat_weights, self.bias, self.num_layers, self.dropout, self.training,
                          self.bidirectional, self.batch_first)
    return output, h
def LSTMCell(self, input, hx: Optional[Tuple[Tensor, Tensor]]=None):
    if hx is None:
        zeros = torch.zeros([input.size(0), self.hidden_size], dtype=input.dtype, device=input.device)
        hx = (zeros, zeros)
    h, c = torch.lstm_cell(input, [hx[0], hx[1]], self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
    return h, c
def GRUCell(self, input, hx: Optional[Tensor]=None):
    if hx is None:
        hx = torch.zeros([input.size(0), self.hidden_size], dtype=input.dtype, device=input.device)
    return torch.gru_cell(input, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
"""

SAME = {
    "BatchNorm2d": "BatchNorm1d", "BatchNorm3d": "BatchNorm1d", "InstanceNorm2d": "InstanceNorm1d",
    "InstanceNorm3d": "InstanceNorm1d", "Dropout1d": "Dropout2d", "Dropout3d": "Dropout2d", "ReLU6": "Hardtanh",
    "ConstantPad1d": "ConstantPad2d", "ConstantPad3d": "ConstantPad2d", "ReflectionPad1d": "ReflectionPad2d",
    "ReflectionPad3d": "ReflectionPad2d", "ReplicationPad1d": "ReplicationPad2d", "ZeroPad1d": "ConstantPad2d",
    "ReplicationPad3d": "ReplicationPad2d", "ZeroPad2d": "ConstantPad2d", "ZeroPad3d": "ConstantPad2d",
    "UpsamplingNearest2d": "Upsample", "UpsamplingBilinear2d": "Upsample", "NonDynamicallyQuantizableLinear": "Linear",
}  # fmt: skip
EXPRESSIONS = {one.targets[0].id: one.value for one in ast.parse(FUNCTIONS).body}
HELPERS = {one.name: ast.unparse(one) + "\n" for one in ast.parse(WRITTEN).body}
LAYERS = {one.name: one for one in ast.parse(METHODS).body}
LAYERS |= {name: LAYERS[other] for name, other in SAME.items()}
