"""Options of linear_cross_entropy. A dataclass, which takes milliseconds to import: it is loaded when asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .. import _C


def _is_ratio(method: str) -> bool:
    name, _, number = method.partition(":")
    return name == "aspect_ratio" and number.isdigit() and int(number) > 0


@dataclass(frozen=True)
class LinearCrossEntropyOptions:
    """How the work is divided. Checked and kept; the numbers are those of `options=None`, which are the same."""

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None

    def __post_init__(self) -> None:
        size, method = self.batch_chunk_size, self.chunking_method
        if size is not None and not (isinstance(size, int) and size > 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {size!r}")
        if method not in (None, "auto") and not _is_ratio(method):
            raise ValueError(f"invalid chunking_method: {method!r}")
        if self.acc_policy not in ("accurate", "balanced", "compact", "auto"):
            raise ValueError(f"invalid acc_policy: {self.acc_policy!r}")
        if self.acc_dtype not in (None, _C.float16, _C.bfloat16, _C.float32, _C.float64):
            raise ValueError(
                "acc_dtype must be one of {None, torch.float16, torch.bfloat16, torch.float32, torch.float64}, got "
                f"{self.acc_dtype}. Pass acc_dtype=None to let the op pick automatically."
            )
