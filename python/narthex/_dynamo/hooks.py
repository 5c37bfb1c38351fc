"""torch._dynamo.hooks: what is called around a compilation."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass
class Hooks:
    """Each is called as `optimize` says."""

    guard_export_fn: Callable | None = None
    guard_fail_fn: Callable | None = None
    guard_filter_fn: Callable | None = None
