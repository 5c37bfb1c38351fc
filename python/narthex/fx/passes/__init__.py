"""Passes over graphs of torch.fx."""

from . import graph_drawer, infra, operator_support, shape_prop, split_module, tools_common

__all__ = ["graph_drawer", "infra", "operator_support", "shape_prop", "split_module", "tools_common"]
