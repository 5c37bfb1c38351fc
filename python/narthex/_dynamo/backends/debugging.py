"""Backends for looking at the stages one by one, under PyTorch's path."""

from . import aot_eager, eager

__all__ = ["aot_eager", "eager"]
