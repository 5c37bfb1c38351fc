"""A linear layer and the cross entropy of its results as one module."""

from math import prod

from .._linear_loss import linear_cross_entropy
from .._linear_options import LinearCrossEntropyOptions
from .linear import Linear
from .module import Module


class LinearCrossEntropyLoss(Module):
    """The loss of `linear(input)`, which is num_classes x out_features, at `target`."""

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device=None,
        dtype=None,
        reduction: str = "mean",
        weight=None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        super().__init__()
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise RuntimeError(f"expected weight shape to be ({num_classes},), got {tuple(weight.shape)}")
        self.register_buffer("weight", weight)
        self.weight: object
        self.reduction, self.num_classes, self.out_features = reduction, num_classes, tuple(out_features)
        self.ignore_index, self.label_smoothing, self.options = ignore_index, label_smoothing, options
        self.linear = Linear(in_features, num_classes * prod(out_features), bias=bias, device=device, dtype=dtype)

    def forward(self, input, target):
        shape, linear = (self.num_classes, *self.out_features), self.linear
        return linear_cross_entropy(
            input,
            linear.weight.reshape(*shape, -1),
            target,
            linear_bias=None if linear.bias is None else linear.bias.reshape(shape),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        """The options."""
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, out_features={self.out_features}, "
            f"bias={self.linear.bias is not None}, reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )
