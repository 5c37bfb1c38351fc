"""export: what torch.export.export does with a module."""

import inspect

from .. import _C
from ..utils import _pytree as pytree
from ..utils._sympy.value_ranges import ValueRanges
from . import _trace
from ._capture import capture
from ._constraints import solve
from .dynamic_shapes import combined, read
from .exported_program import ExportedProgram, ModuleCallEntry, ModuleCallSignature, TrainingIRVerifier
from .graph_signature import InputKind


def leaf_places(mod, args: tuple, kwargs: dict) -> list:
    """For each leaf of the arguments by name, its place among the leaves of (args, kwargs)."""
    numbered, spec = pytree.tree_flatten((args, kwargs))
    args, kwargs = pytree.tree_unflatten(list(range(len(numbered))), spec)
    return pytree.tree_leaves(list(combined(mod, args, kwargs).values()))


def open_sizes_of(mod, args: tuple, kwargs: dict, shapes) -> list:
    """What `shapes` leaves open, by the places among the leaves of (args, kwargs)."""
    found = read(mod, args, kwargs, shapes)
    places = leaf_places(mod, args, kwargs) if found else ()
    return [size._replace(leaf=places[size.leaf]) for size in found]


def export_module(mod, args: tuple, kwargs: dict, shapes, preserved: tuple = ()) -> ExportedProgram:
    """The ExportedProgram of mod(*args, **kwargs). preserved: paths of modules whose way of being called it keeps."""
    inspect.signature(mod.forward).bind(*args, **kwargs)
    leaves, in_spec = pytree.tree_flatten((args, kwargs))
    for leaf in leaves:
        if not (leaf is None or isinstance(leaf, (_C.TensorBase, bool, int, float, str))):
            raise _unsupported_input(leaf)
    open_sizes = open_sizes_of(mod, args, kwargs, shapes)
    found = capture(mod, args, kwargs, open_sizes, preserved)
    solution = solve(found, open_sizes)
    names = _trace.argument_names(mod, args, kwargs)
    traced = _trace.trace(mod, found, solution, _trace.leaf_names(args, kwargs, names))
    signature = ModuleCallSignature([], [], in_spec, found.out_spec, names)
    entries = [ModuleCallEntry("", signature)]
    for path, _ in mod.named_modules(remove_duplicate=False):
        calls = [call for call in traced.signatures if call.partition("@")[0] == path]
        entries += [ModuleCallEntry(call, traced.signatures.get(call)) for call in calls or [path] if path]
    return make_program(traced, entries, (args, kwargs))


def _unsupported_input(leaf):
    from .._dynamo.exc import UserError, UserErrorType

    return UserError(
        UserErrorType.INVALID_INPUT,
        f"Unsupported input type {type(leaf)}. Export only supports pytree containers of basic types (Tensor, int, "
        f"float, ...) "
        "as input. To register a custom dataclass, use `torch.export.register_dataclass`. To register a custom "
        "container type, "
        "use `torch.utils._pytree.register_pytree_node`. To register a constant input, use "
        "`torch.utils._pytree.register_constant`",
    )


def make_program(traced, entries: list, example_inputs) -> ExportedProgram:
    """The program of a graph with the state that its inputs name."""
    constants = {
        given.target: given.value
        for given in traced.inputs
        if given.kind is InputKind.CONSTANT_TENSOR or (given.kind is InputKind.BUFFER and not given.persistent)
    }
    return ExportedProgram(
        traced.graph_module,
        traced.graph_module.graph,
        traced.signature,
        {
            given.target: given.value
            for given in traced.inputs
            if given.kind is InputKind.PARAMETER or (given.kind is InputKind.BUFFER and given.persistent)
        },
        {symbol: ValueRanges.of(*bounds) for symbol, bounds in traced.ranges.items()},
        entries,
        example_inputs,
        constants,
        verifiers=[TrainingIRVerifier],
        hints=traced.hints,
    )
