"""torch._higher_order_ops: functions that take functions."""

from .._absent import getter
from .associative_scan import associative_scan
from .cond import cond
from .map import map
from .scan import scan
from .while_loop import while_loop

__all__ = ["associative_scan", "cond", "map", "scan", "while_loop"]

__getattr__ = getter("torch._higher_order_ops")
