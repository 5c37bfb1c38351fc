"""Which nodes a backend takes: questions that are asked of each, and their combinations."""

import abc

from ..node import Node
from .tools_common import CALLABLE_NODE_OPS, get_node_target


class OperatorSupportBase(abc.ABC):
    """Whether a node is one that a backend takes."""

    @abc.abstractmethod
    def is_node_supported(self, submodules, node: Node) -> bool:
        """submodules: name -> module, of the graph's module."""


def _dtype_of(node: Node):
    """The dtype that shape propagation has found; of what is no tensor, its type."""
    meta = node.meta.get("tensor_meta")
    value = node.meta.get("val") if meta is None else meta
    if value is None and "type" in node.meta:
        return node.meta["type"]
    if value is None:
        raise AssertionError(f"no dtype is known of {node}: propagate shapes first")
    return value[0].dtype if isinstance(value, (list, tuple)) and not hasattr(value, "dtype") else value.dtype


class OperatorSupport(OperatorSupportBase):
    """By a table: name of what is called -> None (always), or dtypes of the arguments, by place and by name."""

    def __init__(self, support_dict=None) -> None:
        self._support_dict = support_dict or {}

    def is_node_supported(self, submodules, node: Node) -> bool:
        if node.op not in CALLABLE_NODE_OPS:
            return True
        name = get_node_target(submodules, node)
        if name not in self._support_dict:
            return False
        wanted = self._support_dict[name]
        if wanted is None:
            return True
        by_place, by_name = wanted
        pairs = [*zip(node.args, by_place), *((node.kwargs[k], d) for k, d in by_name.items() if k in node.kwargs)]
        return all(_dtype_of(given) in dtypes for given, dtypes in pairs if isinstance(given, Node))


class _Asked(OperatorSupportBase):
    def __init__(self, question) -> None:
        self._question = question

    def is_node_supported(self, submodules, node: Node) -> bool:
        return self._question(submodules, node)


def create_op_support(is_node_supported) -> OperatorSupportBase:
    """Of a function of (submodules, node)."""
    return _Asked(is_node_supported)


def chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """What all of them take."""
    return create_op_support(lambda modules, node: all(one.is_node_supported(modules, node) for one in op_support))


def any_chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """What one of them takes."""
    return create_op_support(lambda modules, node: any(one.is_node_supported(modules, node) for one in op_support))


class OpSupports:
    """Some that backends share."""

    @classmethod
    def decline_if_input_dtype(cls, dtype) -> OperatorSupportBase:
        """Takes no node that is given a tensor of `dtype`."""
        return create_op_support(lambda modules, node: all(_dtype_of(given) != dtype for given in node.all_input_nodes))

    @classmethod
    def decline_if_node_in_names(cls, disallow_set: set) -> OperatorSupportBase:
        """Takes no node of one of these names."""
        return create_op_support(lambda modules, node: node.name not in disallow_set)
