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


def numbers_as_tensors(graph) -> None:
    """Numbers that `where` is given become tensors of the result's dtype, which its schema asks for."""
    from .. import ops

    for node in list(graph.nodes):
        if node.target is not ops.aten.where.self or "val" not in node.meta:
            continue
        value = node.meta["val"]
        for place, number in enumerate(node.args):
            if isinstance(number, (int, float, complex)):
                with graph.inserting_before(node):
                    keywords = {"dtype": value.dtype, "device": value.device}
                    made = graph.create_node("call_function", ops.aten.full.default, ([], number), keywords, "full")
                made.meta = {**node.meta, "val": value.detach().new_empty(())}
                node.update_arg(place, made)


def _default(text: str | None):
    """What a schema's text for a default stands for; words (Mean, contiguous_format) stay texts."""
    try:
        return None if text is None else ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
