"""torch._higher_order_ops: functions that take functions."""

from .._absent import getter

__getattr__ = getter("torch._higher_order_ops")
