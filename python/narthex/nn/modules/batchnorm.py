"""BatchNorm: mean 0 and variance 1 in each channel, over the batch in training, by running statistics else."""

import warnings

from ... import _C
from ..._own_init import own_init
from .. import functional
from .affine import Affine


class _NormBase(Affine):
    """What both kinds of norm by channels keep: statistics and how often they were taken."""

    _dims: tuple = ()  # how many dimensions an input may have
    _version = 2  # since then a state holds num_batches_tracked

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
        track_running_stats: bool = True, device=None, dtype=None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_features, self.eps, self.momentum, self.affine = num_features, eps, momentum, affine
        self.track_running_stats = track_running_stats
        self._add_affine((num_features,), affine, affine and bias, device, dtype)
        tracked = track_running_stats
        self.register_buffer("running_mean", _C.zeros((num_features,), device=device, dtype=dtype) if tracked else None)
        self.register_buffer("running_var", _C.ones((num_features,), device=device, dtype=dtype) if tracked else None)
        count = _C.zeros((), dtype=_C.int64, device=device) if tracked else None
        self.register_buffer("num_batches_tracked", count)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Mean 0, variance 1, no batch yet."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Ones and zeros, and statistics from the beginning."""
        self.reset_running_stats()
        super().reset_parameters()

    def _check_input_dim(self, input) -> None:
        """ValueError for an input of other dimensions; classes of programs override it."""
        if not self._dims:
            raise NotImplementedError
        if input.dim() not in self._dims:
            expected = " or ".join(f"{n}D" for n in self._dims)
            raise ValueError(f"expected {expected} input (got {input.dim()}D input)")

    def extra_repr(self) -> str:
        """Channels and options."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(self, state_dict, prefix: str, local_metadata, *lists) -> None:
        old = local_metadata.get("version") is None or local_metadata["version"] < 2
        if old and self.num_batches_tracked is not None:
            state_dict.setdefault(prefix + "num_batches_tracked", self.num_batches_tracked.detach())
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *lists)


class _BatchNorm(_NormBase):
    def forward(self, input):
        self._check_input_dim(input)
        factor = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # the mean over all batches so far
                factor = 1.0 / float(self.num_batches_tracked)
        of_batch = self.training or (self.running_mean is None and self.running_var is None)
        use = not self.training or self.track_running_stats
        return functional.batch_norm(
            input, self.running_mean if use else None, self.running_var if use else None, self.weight, self.bias,
            of_batch, factor, self.eps,
        )  # fmt: skip


own_init(_BatchNorm)


class BatchNorm1d(_BatchNorm):
    """Of inputs (N, C) and (N, C, L)."""

    _dims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Of inputs (N, C, H, W)."""

    _dims = (4,)


class BatchNorm3d(_BatchNorm):
    """Of inputs (N, C, D, H, W)."""

    _dims = (5,)


class SyncBatchNorm(_BatchNorm):
    """BatchNorm of inputs of any number of dimensions from 2 on; in one process that is all."""

    _dims = (2, 3, 4, 5, 6, 7, 8)

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
        track_running_stats: bool = True, process_group=None, device=None, dtype=None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    @classmethod
    def convert_sync_batchnorm(cls, module, process_group=None):
        """The module with a SyncBatchNorm for each BatchNorm in it."""
        made = module
        if isinstance(module, _BatchNorm) and not isinstance(module, SyncBatchNorm):
            made = cls(
                module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats,
                process_group, bias=module.bias is not None,
            )  # fmt: skip
            for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
                setattr(made, name, getattr(module, name))
            made.training = module.training
        for name, child in module.named_children():
            made.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return made


class _InstanceNorm(_NormBase):
    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = False,
        track_running_stats: bool = False, device=None, dtype=None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def forward(self, input):
        self._check_input_dim(input)
        unbatched = input.dim() == self._dims[0]
        channels = input.size(0 if unbatched else 1)
        if channels != self.num_features:
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={0 if unbatched else 1} to match num_features "
                    f"({self.num_features}), but got: {channels}."
                )
            warnings.warn(
                f"input's size at dim={0 if unbatched else 1} does not match num_features. You can silence this "
                "warning by not passing in num_features, which is not used because affine=False",
                stacklevel=2,
            )
        result = functional.instance_norm(
            input.unsqueeze(0) if unbatched else input, self.running_mean, self.running_var, self.weight, self.bias,
            self.training or not self.track_running_stats, 0.0 if self.momentum is None else self.momentum, self.eps,
        )  # fmt: skip
        return result.squeeze(0) if unbatched else result


class InstanceNorm1d(_InstanceNorm):
    """Mean 0 and variance 1 in each channel of each sample (N, C, L) or (C, L)."""

    _dims = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Mean 0 and variance 1 in each channel of each sample (N, C, H, W) or (C, H, W)."""

    _dims = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Mean 0 and variance 1 in each channel of each sample (N, C, D, H, W) or (C, D, H, W)."""

    _dims = (4, 5)
