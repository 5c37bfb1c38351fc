"""Arguments of operators in the order of their schema, with its defaults."""

import ast

from .._ops import OpOverload


def in_order_of_schema(node) -> tuple:
    """(args, kwargs) of a node; of one that calls an operator, all by place, those left out as the schema says."""
    if node.op != "call_function" or not isinstance(node.target, OpOverload):
        return node.args, node.kwargs
    wanted, args, kwargs = node.target._schema.arguments, list(node.args), dict(node.kwargs)
    for argument in wanted[len(args) :]:
        args.append(kwargs.pop(argument.name) if argument.name in kwargs else _default(argument.default_value))
    return tuple(args), kwargs


def _default(text: str | None):
    """What a schema's text for a default stands for; words (Mean, contiguous_format) stay texts."""
    try:
        return None if text is None else ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
