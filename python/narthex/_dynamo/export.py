"""torch._dynamo.export: the older way to a whole graph."""

from typing import Any, NamedTuple


class ExportResult(NamedTuple):
    """graph_module, called as the function was, and the guards, of which none is left: the module checks what it
    needs."""

    graph_module: Any
    guards: Any


def export(f, *extra_args, aten_graph: bool = False, tracing_mode: str = "symbolic", dynamic_shapes=None, **options):
    """export(f)(*args, **kwargs): an ExportResult. The graph is one of ATen operators, whether aten_graph or not; sizes
    are open where dynamic_shapes says so."""
    from ..export import export as export_module
    from ..nn import Module

    class Function(Module):
        def __init__(self) -> None:
            super().__init__()
            self.function = f

        def forward(self, *args, **kwargs):
            return self.function(*args, **kwargs)

    unknown = sorted(set(options) & {"pre_dispatch", "decomposition_table", "constraints"})
    if any(options[name] for name in unknown):
        raise NotImplementedError(f"torch._dynamo.export: {', '.join(unknown)} is not there: use torch.export")

    def inner(*args, **kwargs) -> ExportResult:
        mod = f if isinstance(f, Module) else Function()
        program = export_module(mod, args, kwargs, dynamic_shapes=dynamic_shapes)
        return ExportResult(program.module(), set())

    return inner(*extra_args) if extra_args else inner
