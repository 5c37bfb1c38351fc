"""torch._higher_order_ops: functions that take functions."""

from .._absent import getter
from .control import cond, map, scan, while_loop

__all__ = ["cond", "map", "scan", "while_loop"]

__getattr__ = getter("torch._higher_order_ops")
