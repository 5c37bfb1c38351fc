"""torch._decomp: operators taken to pieces. A table maps an operator (torch.ops.aten.x.y) to a function that does the
same with others; make_fx and AOT take such tables. What the .op files compose of others is there without a function of
its own: calling it is taking it to pieces, no graph ever shows it."""

from .. import _C
from .._ops import OpOverload, OpOverloadPacket, ops
from ..utils import _pytree as pytree

__all__ = [
    "core_aten_decompositions", "decomposition_table", "get_decompositions", "global_decomposition_table", "meta_table",
    "pre_autograd_decomposition_table", "register_decomposition", "remove_decompositions",
]  # fmt: skip

global_decomposition_table: dict = {"post_autograd": {}, "pre_autograd": {}, "meta": {}}
decomposition_table = global_decomposition_table["post_autograd"]
pre_autograd_decomposition_table = global_decomposition_table["pre_autograd"]
meta_table = global_decomposition_table["meta"]


def _overloads(op) -> list:
    if isinstance(op, OpOverload):
        return [op]
    if isinstance(op, OpOverloadPacket):
        return [getattr(op, name) for name in op.overloads()]
    raise AssertionError(f"expected OpOverloadPacket, got {type(op)}")


def register_decomposition(aten_op, registry=None, *, type: str = "post_autograd", unsafe: bool = False):
    """A decorator: the function takes the operator to pieces. aten_op: an operator, all overloads of a name, or a list
    of such. registry: the table; without one the global one of this type."""
    if type not in global_decomposition_table:
        raise AssertionError(f"type must be one of post_autograd, pre_autograd or meta, got {type!r}")

    def register(fn):
        table = global_decomposition_table[type] if registry is None else registry
        for op in pytree.tree_leaves(aten_op):
            for overload in _overloads(op):
                if overload in table:
                    raise RuntimeError(f"duplicate registrations for {overload}")
                table[overload] = fn
        return fn

    return register


def get_decompositions(aten_ops, type: str = "post_autograd") -> dict:
    """{operator: function} for those of aten_ops (operators or names with all overloads) that are known."""
    if type not in global_decomposition_table:
        raise AssertionError(f"type must be one of post_autograd, pre_autograd or meta, got {type!r}")
    table, found = global_decomposition_table[type], {}
    for op in aten_ops:
        for overload in _overloads(op):
            if overload in table:
                found[overload] = table[overload]
            elif type == "post_autograd" and _is_composed(overload):
                found[overload] = overload
    return found


def _is_composed(overload) -> bool:
    return _C.op_info(overload._name)["kind"] == "composed"


def remove_decompositions(decompositions: dict, aten_ops) -> None:
    """Takes operators out of a table."""
    for op in aten_ops:
        for overload in _overloads(op):
            decompositions.pop(overload, None)


# Of the operators that have functions here, those that ATen's core keeps.
_CORE = frozenset(
    getattr(ops.aten, name).default
    for name in (
        "_log_softmax", "_softmax", "addmm", "elu", "gelu", "hardtanh", "leaky_relu", "native_layer_norm", "relu",
    )
)  # fmt: skip


def core_aten_decompositions() -> dict:
    """A table of everything that leads to operators of ATen's core: what is composed, and what this module has a
    function for, but for operators of the core itself."""
    table = {op: function for op, function in decomposition_table.items() if op not in _CORE}
    for name in _C.op_names():
        space, _, rest = name.partition("::")
        if space == "aten" and _C.op_info(name)["kind"] == "composed":
            packet, _, overload = rest.partition(".")
            op = getattr(getattr(ops.aten, packet), overload or "default")
            table.setdefault(op, op)
    return table


from . import decompositions as decompositions  # noqa: E402  (it registers what it has)
