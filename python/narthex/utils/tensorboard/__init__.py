"""torch.utils.tensorboard: what a training run tells TensorBoard, written through the package tensorboard."""

import tensorboard as _tensorboard

if not hasattr(_tensorboard, "__version__") or [int(n) for n in _tensorboard.__version__.split(".")[:2]] < [1, 15]:
    raise ImportError("TensorBoard logging requires TensorBoard version 1.15 or above")

from .writer import FileWriter, SummaryWriter  # noqa: E402

__all__ = ["FileWriter", "SummaryWriter"]
