"""torch.onnx.symbolic_helper: marks on rules for an exporter that is not there."""

from collections.abc import Callable

from .._absent import getter


def parse_args(*arg_descriptors: str) -> Callable:
    """A decorator that hands back the rule: nothing calls it."""
    return lambda rule: rule


__getattr__ = getter("torch.onnx.symbolic_helper")
