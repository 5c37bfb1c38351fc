"""The backend of torch.compile for npus: _npu_backend(gm, example_inputs).

AOT gives forward and backward graphs; one _NpuFxCompiler stands for one captured graph. It compiles at the first run,
as torchair does, and from then on `_compiled` is the engine's own graph, which the capture engine calls without Python.
"""

import logging
from functools import partial

from ..._dynamo.backends import graph_device, log_output_code
from ..._functorch.aot_autograd import aot_graphs
from ..._later import names
from .configs.compiler_config import CompilerConfig
from .core.utils import say


def get_npu_default_decompositions() -> dict:
    """Operators that are split before the backend sees them: none."""
    return {}


def _check_decompositions(decompositions) -> None:
    if decompositions:
        raise NotImplementedError("get_npu_backend: decompositions of a program's own are not there yet")


class _NpuFxCompiler:
    """One captured graph: compiled in the configuration's mode at its first call."""

    def __init__(self, config: CompilerConfig, gm, example_inputs) -> None:
        self.config, self.graph = config, gm
        self._compiled = None
        self._aot = aot_graphs(gm)
        self._device = graph_device(example_inputs)
        self._log_inputs()
        self._dump()

    def _log_inputs(self) -> None:
        from ...fx import Graph

        forward = Graph(self._aot.forward)
        values = [node.meta["val"] for node in forward.nodes if node.op == "placeholder"]
        say(logging.INFO, "compiler inputs")
        for index, value in enumerate(values):
            say(logging.INFO, "  input %d: %r", index, value)
        say(logging.INFO, "  graph: %s", forward)

    def _dump(self) -> None:
        """Writes the graphs as files if debug.graph_dump.type asks for it."""
        kind = self.config.debug.graph_dump.type
        if kind is None:
            return
        import os

        number = _take_number("dump")
        for title, graph in (("forward", self._aot.forward), ("backward", self._aot.backward)):
            if graph is not None:
                text = graph.python(shapes=True, lines=True) if kind == "py" else graph.text()
                name = f"dynamo_{number}_{title}.{kind}"
                with open(os.path.join(self.config.debug.graph_dump.path, name), "w") as file:
                    file.write(text)

    def __call__(self, *inputs):
        if self._compiled is None:
            return _FIRST_RUNS["eager" if self.config.debug.run_eagerly else self.config.mode](self, inputs)
        return self._compiled(*inputs)

    def compile(self, mode: str):
        """Compiles forward and (when it is first needed) backward; returns the engine's graph."""
        self._compiled = self._aot.compile(mode, self._device)
        log_output_code(self._compiled)
        return self._compiled


def _first_run_engine(compiler: _NpuFxCompiler, inputs: tuple):
    from .core._backend import initialize_graph_engine

    initialize_graph_engine({"ge.exec.deviceId": str(compiler._device.index or 0), "ge_run_with_torch_npu": "1"})
    name = f"graph_{_take_number('engine')}"
    say(logging.INFO, "start compile graph: %s.", name)
    compiled = compiler.compile("max-autotune")
    say(logging.INFO, "end compile graph: %s and start run graph.", name)
    return compiled(*inputs)


def _first_run_replay(compiler: _NpuFxCompiler, inputs: tuple):
    compiled = compiler.compile("reduce-overhead")
    say(
        logging.INFO,
        "Success to capture fx graph[id: %d] and start to run AclGraph[id: %d].",
        id(compiler.graph),
        id(compiled),
    )
    return compiled(*inputs)


def _first_run_eager(compiler: _NpuFxCompiler, inputs: tuple):
    return compiler.compile("eager")(*inputs)


_FIRST_RUNS = {"max-autotune": _first_run_engine, "reduce-overhead": _first_run_replay, "eager": _first_run_eager}
_numbers: dict = {}


def _take_number(kind: str) -> int:
    """1, 2, 3 ... for each kind."""
    _numbers[kind] = _numbers.get(kind, 0) + 1
    return _numbers[kind]


def _npu_backend(gm, example_inputs, *, compiler_config=None, decompositions=None, **options):
    """Compiles a captured graph for the npu that its inputs lie on."""
    if options:
        raise TypeError(f"_npu_backend: unknown option '{next(iter(options))}'; put options into CompilerConfig")
    _check_decompositions(decompositions)
    config = CompilerConfig() if compiler_config is None else compiler_config
    config.warn_about_mode()
    return _NpuFxCompiler(config, gm, example_inputs)


def get_npu_backend(*, compiler_config=None, custom_decompositions=None):
    """A backend for torch.compile. compiler_config None: every option at its default."""
    if compiler_config is not None and not isinstance(compiler_config, CompilerConfig):
        raise TypeError(
            f"get_npu_backend: compiler_config is a {type(compiler_config).__name__}; it must be a CompilerConfig"
        )
    _check_decompositions(custom_decompositions)
    decompositions = get_npu_default_decompositions()
    backend = partial(_npu_backend, compiler_config=compiler_config or CompilerConfig(), decompositions=decompositions)
    backend.fits_shapes = True  # one graph for each shape
    return backend


def get_compiler(compiler_config=None):
    """compiler(gm, example_inputs) -> callable: the backend under the name that takes the configuration first."""
    return get_npu_backend(compiler_config=compiler_config)


def dynamo_export(
    *args, model=None, export_path="export_file", export_name="export", dynamic=False, config=None, **kwargs
):
    """Raises NotImplementedError."""
    raise NotImplementedError(
        "dynamo_export: writing a graph for another program is not there yet; see nx_session_save in narthex.h"
    )


globals().update(
    names(
        "torchair.npu_fx_compiler",
        "torch.compile with get_npu_backend() does its work",
        ("_GmRunner", "_NpuGraphConverter", "_optimize_fx", "add_npu_patch", "aot_module_simplified_joint"),
    )
)
