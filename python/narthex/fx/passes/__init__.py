"""Passes over graphs of torch.fx."""

from . import graph_drawer, shape_prop, split_module

__all__ = ["graph_drawer", "shape_prop", "split_module"]
