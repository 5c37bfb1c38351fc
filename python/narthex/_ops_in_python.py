"""Operators of torch.ops.aten that are functions in Python: questions to a tensor, and those of PyTorch's graphs that
are calls of others here. A parameter has the name that PyTorch's schema gives it."""

from types import FunctionType

from ._ops_of_numbers import NUMBERS


def copy_of(function):
    """Another function of the same code, which has a name of its own."""
    made = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made


class _InPython:
    """An operator of PyTorch that is a function in Python here: its overloads by name."""

    def __init__(self, name: str, **overloads) -> None:
        self.__name__, self._overloads = name, list(overloads)
        for overload, function in overloads.items():
            made = copy_of(function)
            made.__name__, made.__module__ = f"{name}.{overload}", "torch._ops.aten"
            setattr(self, overload, made)
        self._first = getattr(self, next(iter(overloads)))

    def __call__(self, *args, **kwargs):
        return self._first(*args, **kwargs)

    def overloads(self) -> list:
        """The names of the overloads."""
        return list(self._overloads)

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='aten.{self.__name__}')>"


def _to(self, dtype=None, device=None, non_blocking=False, copy=False, memory_format=None):
    return self.to(device=device, dtype=dtype, non_blocking=non_blocking, copy=copy, memory_format=memory_format)


def _to_other(self, other, non_blocking=False, copy=False, memory_format=None):
    return _to(self, other.dtype, other.device, non_blocking, copy, memory_format)


def _to_layout(
    self, *, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=False, copy=False, memory_format=None
):
    return _to(self, dtype, device, non_blocking, copy, memory_format)


def _assert_tensor_metadata(a, size=None, stride=None, dtype=None, *, device=None, layout=None) -> None:
    found = (tuple(a.shape), tuple(a.stride()), a.dtype, a.device, a.layout)
    wanted = (size and tuple(size), stride and tuple(stride), dtype, device, layout)
    for what, is_, given in zip(("sizes", "strides", "dtype", "device", "layout"), found, wanted):
        if given is not None and given != is_:
            raise RuntimeError(f"Tensor {what} mismatch! Expected: {given}, Got: {is_}")


def _assert_scalar(self, assert_msg: str) -> None:
    if not self:
        raise RuntimeError(assert_msg)


def _made_like(name: str):
    def make(self, size, *, dtype=None, layout=None, device=None, pin_memory=None):
        return getattr(self, name)(size, dtype=dtype, device=device)

    return make


def _new_full(self, size, fill_value, *, dtype=None, layout=None, device=None, pin_memory=None):
    return self.new_full(size, fill_value, dtype=dtype, device=device)


def _scalar_tensor(s, *, dtype=None, layout=None, device=None, pin_memory=None):
    from . import full, get_default_dtype

    return full((), s, dtype=dtype or get_default_dtype(), device=device)


# ---- layers
def _batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps):
    """The result with the statistics that it was made by."""
    from . import batch_norm
    from ._ops import ops

    result = batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, True)
    if not training:
        return result, input.new_empty(0), input.new_empty(0)
    statistics = ops.aten._native_batch_norm_legit.no_stats(input, weight, bias, True, momentum, eps)
    return result, statistics[1], statistics[2]


def _batch_norm_functional(input, weight, bias, running_mean, running_var, training, momentum, eps):
    mean, var = running_mean.clone(), running_var.clone()
    return (*_batch_norm(input, weight, bias, mean, var, training, momentum, eps), mean, var)


def _batch_norm_no_training(input, weight, bias, running_mean, running_var, momentum, eps):
    return _batch_norm(input, weight, bias, running_mean, running_var, False, momentum, eps)


def _instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn_enabled):
    from .nn import functional

    return functional.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


def _pad(self, pad, mode="constant", value=None):
    from .nn import functional

    return functional.pad(self, pad, mode, value)


def _resampled(name: str, input, output_size, scale_factors, *options):
    """The operator that takes each factor apart, of a list of sizes or of factors."""
    if (output_size is None) == (scale_factors is None):
        raise RuntimeError("Must specify exactly one of output_size and scale_factors")
    n, word = input.dim() - 2, "output_size" if scale_factors is None else "scale_factors"
    if len(output_size if scale_factors is None else scale_factors) != n:
        raise RuntimeError(
            f"Expected static_cast<int64_t>({word}->size()) == spatial_dimensions to be true, but got false.  (Could "
            "this error message be improved?  If so, please report an enhancement request to PyTorch.)"
        )
    if output_size is None:
        output_size = [int(size * factor) for size, factor in zip(input.shape[2:], scale_factors)]
    from ._ops import ops

    return getattr(ops.aten, name).default(input, output_size, *options, *(scale_factors or [None] * n))


def _by_factors(name: str):
    if "nearest" in name:
        return lambda input, output_size, scale_factors: _resampled(name, input, output_size, scale_factors)
    return lambda input, output_size, align_corners, scale_factors: _resampled(
        name, input, output_size, scale_factors, align_corners
    )


def _recurrent(name: str):
    def layer(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
        import narthex

        call = getattr(narthex, name)
        return call(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)

    return layer


# ---- several tensors
def _einsum(equation, tensors, *, path=None):
    from . import einsum

    return einsum(equation, *tensors)


def _meshgrid(tensors, *, indexing="ij"):
    from . import meshgrid

    return list(meshgrid(*tensors, indexing=indexing))


def _bilinear(input1, input2, weight, bias=None):
    from . import bilinear

    return bilinear(input1, input2, weight, bias)


def _cdist(x1, x2, p, compute_mode):
    from . import cdist

    return cdist(x1, x2, p)


def _pdist(self, p=2.0):
    from . import pdist

    return pdist(self, p)


def _assert_async(self, assert_msg="Expected Tensor with single nonzero value, but got zero") -> None:
    if not self.item():
        raise RuntimeError(assert_msg)


_RESAMPLERS = [f"{name}{n}d" for name in ("upsample_nearest", "_upsample_nearest_exact") for n in (1, 2, 3)]
_RESAMPLERS += ["upsample_linear1d", "upsample_bilinear2d", "upsample_bicubic2d", "upsample_trilinear3d"]
_RESAMPLERS += ["_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa", "_upsample_lanczos2d_aa"]
_TABLE = {
    "sym_size": {"int": lambda self, dim: self.size(dim)},
    "sym_stride": {"int": lambda self, dim: self.stride(dim)},
    "sym_numel": {"default": lambda self: self.numel()},
    "sym_storage_offset": {"default": lambda self: self.storage_offset()},
    "sym_is_contiguous": {"default": lambda self: self.is_contiguous()},
    "sym_constrain_range_for_size": {"default": lambda size, *, min=None, max=None: None},
    "to": {
        "dtype": lambda self, dtype, non_blocking=False, copy=False, memory_format=None: _to(
            self, dtype, None, non_blocking, copy, memory_format
        ),
        "device": lambda self, device, dtype, non_blocking=False, copy=False, memory_format=None: _to(
            self, dtype, device, non_blocking, copy, memory_format
        ),
        "other": _to_other,
        "dtype_layout": _to_layout,
    },
    "lift_fresh": {"default": lambda self: self.view_as(self)},
    "lift_fresh_copy": {"default": lambda self: self.clone()},
    "detach_": {"default": lambda self: self.detach_()},
    "fill": {"Tensor": lambda self, value: self.clone().fill_(value)},
    "fill_": {"Tensor": lambda self, value: self.fill_(value)},
    "item": {"default": lambda self: self.item()},
    "_local_scalar_dense": {"default": lambda self: self.item()},
    "type_as": {"default": lambda self, other: self.type_as(other)},
    "reshape_as": {"default": lambda self, other: self.reshape(other.shape)},
    "numpy_T": {"default": lambda self: self.T},
    "mT": {"default": lambda self: self.mT},
    "narrow": {"int": lambda self, dim, start, length: self.narrow(dim, start, length)},
    "__and__": {"Tensor": lambda self, other: self & other, "Scalar": lambda self, other: self & other},
    "__or__": {"Tensor": lambda self, other: self | other, "Scalar": lambda self, other: self | other},
    "__xor__": {"Tensor": lambda self, other: self ^ other, "Scalar": lambda self, other: self ^ other},
    "norm": {"ScalarOpt_dim": lambda self, p, dim, keepdim=False: self.norm(2 if p is None else p, dim, keepdim)},
    "_assert_tensor_metadata": {"default": _assert_tensor_metadata},
    "_assert_scalar": {"default": _assert_scalar},
    "_assert_async": {"msg": _assert_async},
    "new_zeros": {"default": _made_like("new_zeros")},
    "new_ones": {"default": _made_like("new_ones")},
    "new_empty": {"default": _made_like("new_empty")},
    "new_full": {"default": _new_full},
    "scalar_tensor": {"default": _scalar_tensor},
    "_native_batch_norm_legit": {"default": _batch_norm},
    "_native_batch_norm_legit_functional": {"default": _batch_norm_functional},
    "_native_batch_norm_legit_no_training": {"default": _batch_norm_no_training},
    "instance_norm": {"default": _instance_norm},
    "pad": {"default": _pad},
    **{name: {"vec": _by_factors(name)} for name in _RESAMPLERS},
    **{name: {"input": _recurrent(name)} for name in ("gru", "lstm", "rnn_relu", "rnn_tanh")},
    "einsum": {"default": _einsum},
    "meshgrid": {"default": lambda tensors: _meshgrid(tensors), "indexing": _meshgrid},
    "bilinear": {"default": _bilinear},
    "_cdist_forward": {"default": _cdist},
    "_pdist_forward": {"default": _pdist},
    **NUMBERS,
}
IN_PYTHON = {name: _InPython(name, **overloads) for name, overloads in _TABLE.items()}
