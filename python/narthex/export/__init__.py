"""torch.export: a module captured whole, as a graph of torch.ops calls with its state beside it, to be looked at,
changed, run again and kept in a file."""

import os

from .. import _C
from .._absent import getter
from ..fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from ..utils._pytree import register_dataclass as _register_dataclass
from . import dynamic_shapes as dynamic_shapes
from . import exported_program as exported_program
from . import graph_signature as graph_signature
from . import passes as passes
from ._draft_export import draft_export
from .dynamic_shapes import AdditionalInputs, Constraint, Dim, ShapesCollection, dims
from .exported_program import (
    CustomDecompTable,
    ExportedProgram,
    ModuleCallEntry,
    ModuleCallSignature,
    default_decompositions,
)
from .graph_signature import ExportBackwardSignature, ExportGraphSignature
from .unflatten import FlatArgsAdapter, UnflattenedModule, unflatten

__all__ = [
    "AdditionalInputs", "Constraint", "CustomDecompTable", "Dim", "ExportBackwardSignature", "ExportGraphSignature",
    "ExportedProgram", "FlatArgsAdapter", "ModuleCallEntry", "ModuleCallSignature", "ShapesCollection",
    "UnflattenedModule", "default_decompositions", "dims", "draft_export", "export", "load", "register_dataclass",
    "save", "unflatten",
]  # fmt: skip



def register_dataclass(cls: type, *, serialized_type_name: str | None = None) -> None:
    """Has arguments and results of this dataclass taken apart into its fields."""
    _register_dataclass(cls, serialized_type_name=serialized_type_name)


def _data_dependent(error) -> Exception:
    from .._dynamo.exc import UserError

    text = str(error).removeprefix("torch.compile(fullgraph=True): ")
    if "elements" in text and not isinstance(error, UserError):
        return GuardOnDataDependentSymNode(f"Could not guard on data-dependent expression: {text}")
    return error


def export(
    mod,
    args: tuple,
    kwargs: dict | None = None,
    *,
    dynamic_shapes=None,
    strict: bool = False,
    preserve_module_call_signature: tuple = (),
    prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> ExportedProgram:
    """The call mod(*args, **kwargs) as a program that holds for every call like it: for all elements, and for the sizes
    that dynamic_shapes leaves open.

    The call is followed as torch.compile(fullgraph=True) does, strict or not. Raises UserError where dynamic_shapes
    does not fit the arguments or the program does not hold for all the sizes that it says;
    GuardOnDataDependentSymNode where elements decide what the program does. Neither the module nor the arguments
    change. preserve_module_call_signature: paths of submodules that `unflatten` gives back with the arguments and
    results that they were called with.
    """
    from ..nn import Module
    from ._export import export_module

    if not isinstance(mod, Module):
        raise ValueError(f"Expected `mod` to be an instance of `torch.nn.Module`, got {type(mod)}.")
    if not isinstance(args, tuple):
        from .._dynamo.exc import UserError, UserErrorType

        raise UserError(
            UserErrorType.INVALID_INPUT,
            f"Expecting `args` to be a tuple of example positional inputs, got {type(args)}",
        )
    try:
        return export_module(mod, args, dict(kwargs or {}), dynamic_shapes, tuple(preserve_module_call_signature))
    except _C.Unsupported as error:
        changed = _data_dependent(error)
        if changed is error:
            raise
        raise changed from None


def save(
    ep: ExportedProgram,
    f,
    *,
    extra_files: dict | None = None,
    opset_version: dict | None = None,
    pickle_protocol: int = 2,
) -> None:
    """Writes the program as a .pt2 archive: graph, signature, bounds, weights, constants and example inputs. f: a path,
    or a file that is open for writing. extra_files: texts or bytes by name, which `load` gives back.

    A model file for C programs is written by narthex.model_file.save.
    """
    from ._serialize import save

    if not isinstance(ep, ExportedProgram):
        raise TypeError(
            f"The 'ep' parameter must be an instance of 'ExportedProgram', got '{type(ep).__name__}' instead."
        )
    if isinstance(f, (str, os.PathLike)) and not os.fspath(f).endswith(".pt2"):
        import warnings

        warnings.warn(f"Expect archive file to be a file ending in .pt2, or is a buffer. Instead got {f}", stacklevel=2)
    save(ep, f, extra_files, opset_version)


def load(f, *, extra_files: dict | None = None, expected_opset_version: dict | None = None) -> ExportedProgram:
    """The program of an archive that `save` wrote, PyTorch's or this one's. Nothing in it is executed. extra_files: its
    keys are looked for and get what stands there."""
    from ._deserialize import load

    return load(f, extra_files)


__getattr__ = getter("torch.export")
