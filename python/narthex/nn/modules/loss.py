"""Losses as modules."""

from .. import functional
from .module import Module


class _Loss(Module):
    def __init__(self, size_average=None, reduce=None, reduction: str = "mean") -> None:
        super().__init__()
        if size_average is not None or reduce is not None:
            number = functional._reduction(type(self).__name__, reduction, size_average, reduce)
            reduction = ("none", "mean", "sum")[number]
        self.reduction = reduction


class MSELoss(_Loss):
    """(input - target) ** 2, with its mean, sum or neither."""

    def forward(self, input, target):
        return functional.mse_loss(input, target, reduction=self.reduction)


class _Weighted(_Loss):
    def __init__(self, weight, size_average, ignore_index: int, reduce, reduction: str) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index


class CrossEntropyLoss(_Weighted):
    """-log(softmax(input)) at the classes `target`."""

    def __init__(
        self, weight=None, size_average=None, ignore_index: int = -100, reduce=None, reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__(weight, size_average, ignore_index, reduce, reduction)
        self.label_smoothing = label_smoothing

    def forward(self, input, target):
        return functional.cross_entropy(
            input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )  # fmt: skip


class NLLLoss(_Weighted):
    """-input at the classes `target`."""

    def __init__(
        self, weight=None, size_average=None, ignore_index: int = -100, reduce=None, reduction: str = "mean"
    ) -> None:
        super().__init__(weight, size_average, ignore_index, reduce, reduction)

    def forward(self, input, target):
        return functional.nll_loss(input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction)
