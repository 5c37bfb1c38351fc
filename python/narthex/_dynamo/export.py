"""torch._dynamo.export: the older way to a whole graph."""

from typing import Any, NamedTuple


class ExportResult(NamedTuple):
    """graph_module, called as the function was, and the guards, of which none is left: the module checks what it
    needs."""

    graph_module: Any
    guards: Any


def export(
    f,
    *extra_args,
    aten_graph: bool = False,
    pre_dispatch: bool = False,
    decomposition_table=None,
    tracing_mode: str = "symbolic",
    dynamic_shapes=None,
    specialize_float: bool = True,
    assume_static_by_default: bool = False,
    same_signature: bool = True,
    disable_constraint_solver: bool = False,
    prefer_deferred_runtime_asserts_over_guards: bool = False,
    _log_export_usage: bool = True,
    constraints=None,
    **extra_kwargs,
):
    """export(f)(*args, **kwargs): an ExportResult. The graph is one of ATen operators, whether aten_graph or not, below
    autograd; sizes are open where dynamic_shapes says so, and floats are constants. The other options change nothing.
    """
    from ..export import export as export_module
    from ..nn import Module
    from .utils import called_with

    class Function(Module):
        def __init__(self) -> None:
            super().__init__()
            self.function = f

        def forward(self, *args, **kwargs):
            return self.function(*args, **kwargs)

    def inner(*args, **kwargs) -> ExportResult:
        if decomposition_table is not None and not aten_graph:
            raise AssertionError(
                "Specifying a decomposition_table table or tracing mode is illegal without setting aten_graph=True"
            )
        if pre_dispatch and not aten_graph:
            raise AssertionError("pre_dispatch=True can only be used when aten_graph=True")
        if pre_dispatch or constraints is not None or not specialize_float:
            asked = "pre_dispatch" if pre_dispatch else "constraints" if constraints is not None else "specialize_float"
            raise NotImplementedError(f"torch._dynamo.export: {asked} is not there: use torch.export")
        mod = f if isinstance(f, Module) else Function()
        program = export_module(mod, args, kwargs, dynamic_shapes=dynamic_shapes)
        if decomposition_table is not None:
            program = program.run_decompositions(dict(decomposition_table))
        return ExportResult(program.module(), set())

    return called_with("export", inner, extra_args, extra_kwargs)
