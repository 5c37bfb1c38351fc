"""Passes over graphs of torch.fx."""

from . import (
    graph_drawer,
    graph_manipulation,
    infra,
    operator_support,
    param_fetch,
    shape_prop,
    split_module,
    split_utils,
    splitter_base,
    tools_common,
)

__all__ = [
    "graph_drawer", "graph_manipulation", "infra", "operator_support", "param_fetch", "shape_prop", "split_module",
    "split_utils", "splitter_base", "tools_common",
]  # fmt: skip
