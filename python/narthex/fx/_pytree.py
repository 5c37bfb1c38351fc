"""The lines by which a generated forward takes nested arguments apart and puts its result together."""

import re
from typing import NamedTuple

from ..utils import _pytree as pytree
from .graph import CodeGen


def tree_flatten_spec(tree, spec) -> list:
    """The leaves of `tree`, which must be as `spec` says; what a dict has besides is left out."""
    leaves: list = []
    _take(tree, spec, leaves)
    return leaves


def _take(tree, spec, leaves: list) -> None:
    if spec.is_leaf():
        leaves.append(tree)
        return
    if spec.type is dict:
        for key, child in zip(spec.context, spec.children()):
            _take(tree[key], child, leaves)
        return
    if spec.type in (list, tuple) and isinstance(tree, (list, tuple)):
        if len(tree) < spec.num_children:
            raise ValueError(f"a {type(tree).__name__} of {spec.num_children} was expected, this one has {len(tree)}")
        children = tree
    else:
        children, _ = pytree.SUPPORTED_NODES[pytree._get_node_type(tree)].flatten_fn(tree)
    for item, child in zip(children, spec.children()):
        _take(item, child, leaves)


class _PyTreeInfo(NamedTuple):
    """The names of forward's parameters, how its arguments nest, and how its result does."""

    orig_args: list
    in_spec: pytree.TreeSpec
    out_spec: pytree.TreeSpec | None


class _PyTreeCodeGen(CodeGen):
    """Writes a forward that takes and returns what the original one does. The module has `_in_spec` and `_out_spec`."""

    def __init__(self, pytree_info: _PyTreeInfo) -> None:
        self.pytree_info = pytree_info

    def process_inputs(self, *args):
        return pytree.tree_leaves(args)

    def process_outputs(self, outputs):
        if self.pytree_info.out_spec is None:
            return outputs
        return pytree.tree_unflatten(outputs, self.pytree_info.out_spec)

    def additional_globals(self) -> dict:
        import sys

        return {"fx_pytree": sys.modules[__name__], "pytree": pytree}

    def gen_fn_def(self, free_vars: list, maybe_return_annotation: str, *, expanded_def: bool = False) -> str:
        names, spec = self.pytree_info.orig_args, self.pytree_info.in_spec
        flat = [re.split(r"[:=]", name)[0].strip() for name in free_vars[1:]]
        head = super().gen_fn_def([free_vars[0], *names], maybe_return_annotation, expanded_def=expanded_def)
        if not flat:
            return head
        given = f"[{', '.join(names)}]"
        if [child.type for child in spec.children()] == [tuple, dict]:  # of a call with keywords
            positional, keywords = spec.children()
            n = positional.num_children
            named = ", ".join(f"{key!r}:{key}" for key in keywords.context)
            given = f"([{', '.join(names[:n])}], {{{named}}})"
        return f"{head}\n    {', '.join(flat)}, = fx_pytree.tree_flatten_spec({given}, self._in_spec)"

    def generate_output(self, text: str) -> str:
        return f"pytree.tree_unflatten({text}, self._out_spec)"
