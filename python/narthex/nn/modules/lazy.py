"""Lazy modules: layers that learn from their first input how many features or channels come in."""

from ... import _C
from ..._own_init import own_init
from ...autograd.grad_mode import no_grad
from ..parameter import UninitializedBuffer, UninitializedParameter, is_lazy
from . import batchnorm
from .conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from .linear import Linear

__all__ = [
    "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "LazyConv1d", "LazyConv2d", "LazyConv3d",
    "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d", "LazyInstanceNorm1d", "LazyInstanceNorm2d",
    "LazyInstanceNorm3d", "LazyLinear",
]  # fmt: skip


class LazyModuleMixin:
    """Stands before a class of layers in the bases of its lazy form, which says in initialize_parameters(*inputs) what
    sizes its parameters have. After the first call the instance is a `cls_to_become`."""

    cls_to_become = None

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(self._infer_parameters, with_kwargs=True)

    def _save_to_state_dict(self, destination, prefix: str, keep_vars: bool) -> None:
        kept = ((name, value) for name, value in self._buffers.items() if name not in self._non_persistent_buffers_set)
        for name, value in [*self._parameters.items(), *kept]:
            if value is not None:
                destination[prefix + name] = value if keep_vars or is_lazy(value) else value.detach()

    def _lazy_load_hook(self, state_dict, prefix: str, *_) -> None:
        """What is loaded says the sizes, too."""
        for name, value in [*self._parameters.items(), *self._buffers.items()]:
            loaded = state_dict.get(prefix + name)
            if is_lazy(value) and loaded is not None and not is_lazy(loaded):
                with no_grad():
                    value.materialize(loaded.shape)

    def initialize_parameters(self, *args, **kwargs) -> None:
        """Gives the parameters their sizes and first values; a subclass defines it."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self) -> bool:
        """Whether the sizes of some parameter or buffer are not known yet."""
        return any(map(is_lazy, [*self._parameters.values(), *self._buffers.values()]))

    def _infer_parameters(self, module, args, kwargs=None) -> None:
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook, module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become


class LazyLinear(LazyModuleMixin, Linear):
    """Linear whose in_features is the last size of its first input."""

    cls_to_become = Linear

    def __init__(self, out_features: int, bias: bool = True, device=None, dtype=None) -> None:
        super().__init__(0, 0, False)  # Linear fills what it makes, which is nothing
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_features = out_features
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draws new values once the sizes are known."""
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input) -> None:
        """Takes the last size of `input`."""
        if self.has_uninitialized_params():
            with no_grad():
                self.in_features = input.shape[-1]
                self.weight.materialize((self.out_features, self.in_features))
                if self.bias is not None:
                    self.bias.materialize((self.out_features,))
                self.reset_parameters()
        if self.in_features == 0:
            if input.shape[-1] != self.weight.shape[-1]:
                raise AssertionError(
                    f"The in_features inferred from input: {input.shape[-1]} is not equal to in_features from "
                    f"self.weight: {self.weight.shape[-1]}"
                )
            self.in_features = input.shape[-1]


class _LazyConv(LazyModuleMixin):
    """What the lazy convolutions share: in_channels is the size of the first input before the dimensions of space."""

    def _become_lazy(self, out_channels: int, bias: bool, device, dtype) -> None:
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draws new values once the sizes are known."""
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()

    def _channels(self, input) -> int:
        n = self._n
        if input.dim() not in (n + 1, n + 2):
            raise RuntimeError(
                f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to {type(self).__name__}, "
                f"but got input of size: {input.shape}"
            )
        return input.shape[-n - 1]

    def initialize_parameters(self, input, *args, **kwargs) -> None:
        """Takes the channels of `input`."""
        if not self.has_uninitialized_params():
            return
        self.in_channels = self._channels(input)
        if self.in_channels % self.groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        first, second = self.out_channels, self.in_channels
        if self.transposed:
            first, second = second, first
        self.weight.materialize((first, second // self.groups, *self.kernel_size))
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()


class _LazyConvolution(_LazyConv):
    def __init__(
        self, out_channels: int, kernel_size, stride=1, padding=0, dilation=1, groups: int = 1, bias: bool = True,
        padding_mode: str = "zeros", device=None, dtype=None,
    ) -> None:  # fmt: skip
        super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode)
        self._become_lazy(out_channels, bias, device, dtype)


class _LazyTransposed(_LazyConv):
    def __init__(
        self, out_channels: int, kernel_size, stride=1, padding=0, output_padding=0, groups: int = 1,
        bias: bool = True, dilation=1, padding_mode: str = "zeros", device=None, dtype=None,
    ) -> None:  # fmt: skip
        super().__init__(0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation, padding_mode)
        self._become_lazy(out_channels, bias, device, dtype)


class _LazyNormBase(LazyModuleMixin):
    """What the lazy norms share: num_features is the second size of the first input."""

    def __init__(
        self, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True, track_running_stats: bool = True,
        device=None, dtype=None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(0, eps, momentum, False, False)
        self.affine, self.track_running_stats = affine, track_running_stats
        where = {"device": device, "dtype": dtype}
        if affine:
            self.weight = UninitializedParameter(**where)
            if bias:
                self.bias = UninitializedParameter(**where)
        if track_running_stats:
            self.running_mean, self.running_var = UninitializedBuffer(**where), UninitializedBuffer(**where)
            self.num_batches_tracked = _C.tensor(0, dtype=_C.int64, device=device)

    def reset_parameters(self) -> None:
        """Gives the first values once the sizes are known."""
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input) -> None:
        """Takes the second size of `input`."""
        if not self.has_uninitialized_params():
            return
        self.num_features = input.shape[1]
        for value in (self.weight, self.bias, self.running_mean, self.running_var):
            if value is not None:
                value.materialize((self.num_features,))
        self.reset_parameters()


def _made(lazy, usual, what: str, base) -> type:
    """The lazy form of a class, below `base` as that is."""
    members = {
        "__doc__": f"{usual.__name__} whose {what} is that of its first input.",
        "__module__": __name__,
        "cls_to_become": usual,
    }
    if base is not usual:
        members["_dims"] = usual._dims
    return type(f"Lazy{usual.__name__}", (lazy, base), members)


LazyConv1d, LazyConv2d, LazyConv3d = (_made(_LazyConvolution, c, "in_channels", c) for c in (Conv1d, Conv2d, Conv3d))
LazyConvTranspose1d, LazyConvTranspose2d, LazyConvTranspose3d = (
    _made(_LazyTransposed, c, "in_channels", c) for c in (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)
)
LazyBatchNorm1d, LazyBatchNorm2d, LazyBatchNorm3d = (
    _made(_LazyNormBase, getattr(batchnorm, f"BatchNorm{n}d"), "num_features", batchnorm._BatchNorm) for n in (1, 2, 3)
)
LazyInstanceNorm1d, LazyInstanceNorm2d, LazyInstanceNorm3d = (
    _made(_LazyNormBase, getattr(batchnorm, f"InstanceNorm{n}d"), "num_features", batchnorm._InstanceNorm)
    for n in (1, 2, 3)
)
own_init(LazyConv1d, LazyConv2d, LazyConv3d, LazyConvTranspose1d, LazyConvTranspose2d, LazyConvTranspose3d)
