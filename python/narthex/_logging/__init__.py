"""torch._logging: which of the compiler's logs are shown. `set_logs(dynamo=logging.DEBUG, graph_code=True)`.

Two kinds of names: logs have a level, artifacts are on or off. A log is a Python logger below "narthex", since PyTorch
may be in the same process. An artifact that belongs to a log is also on while that log is at DEBUG. Lines go to stderr:

    V1121 14:09:36.880000 2225 narthex/_dynamo/log.py:41] [0/0] [__graph_code] text

level letter, month and day, time, thread, the line of Narthex that says it, the compile id, the artifact.
The capture engine says nothing, and costs nothing, until one of its logs is on.
"""

import logging
import os
import sys

from .. import _C

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep

LOGS = {"dynamo": "narthex._dynamo", "aot": "narthex._functorch", "inductor": "narthex.engine", "torchair": "torchair"}
# Logs of parts of PyTorch that are not here, or that say nothing: their levels are kept.
QUIET_LOGS = ("autograd", "c10d", "ddp", "distributed", "dtensor", "dynamic", "export", "fsdp", "onnx")
LOGS.update((name, f"narthex.quiet.{name}") for name in QUIET_LOGS)
# artifact: (log that brings it along at DEBUG or None, what it shows)
ARTIFACTS = {
    "bytecode": (None, "bytecode of a captured frame"),
    "trace_source": ("dynamo", "source lines as they are traced"),
    "trace_bytecode": ("dynamo", "instructions as they are traced"),
    "graph": (None, "the captured graph as a table"),
    "graph_code": ("dynamo", "the captured graph as Python"),
    "graph_code_verbose": (None, "the same as graph_code"),
    "graph_sizes": ("dynamo", "sizes of the tensors in the captured graph"),
    "graph_breaks": ("dynamo", "where and why a frame was split"),
    "guards": ("dynamo", "what a compiled frame depends on"),
    "verbose_guards": (None, "the same as guards"),
    "recompiles": ("dynamo", "why a frame was compiled again"),
    "recompiles_verbose": (None, "the same as recompiles"),
    "aot_joint_graph": ("aot", "forward and backward in one graph"),
    "aot_graphs": ("aot", "forward and backward graphs"),
    "output_code": (None, "what the engine runs: steps and memory plan"),
}
# Artifacts of PyTorch's compiler that there is nothing of here.
QUIET = (
    "annotation", "aot_graphs_effects", "auto_chunker", "autotuning", "benchmarking", "caching", "compiled_autograd",
    "compiled_autograd_verbose", "compute_dependencies", "cudagraph_static_inputs", "cudagraphs", "ddp_graphs",
    "fusion", "graph_region_expansion", "hierarchical_compile", "incremental", "inductor_metrics", "ir_post_fusion",
    "ir_pre_fusion", "kernel_code", "loop_ordering", "loop_tiling", "node_runtime_estimation", "onnx_diagnostics",
    "overlap", "overlap_scheduling", "perf_hints", "post_grad_graphs", "pre_grad_graphs", "schedule", "side_effects",
    "sym_node", "trace_call", "trace_shape_events",
)  # fmt: skip
ARTIFACTS.update((name, (None, "nothing: there is none of it here")) for name in QUIET)
_on = dict.fromkeys(ARTIFACTS, None)  # None: follows its log
_levels = {name: logging.WARNING for name in LOGS}
_handler = None


class _Formatter(logging.Formatter):
    """Writes PyTorch's prefix before each line of the message."""

    def format(self, record: logging.LogRecord) -> str:
        from threading import get_native_id
        from time import localtime, strftime

        message = record.getMessage()
        if record.exc_info:
            message += "\n" + self.formatException(record.exc_info)
        letter = {"DEBUG": "V", "WARNING": "W"}.get(record.levelname, record.levelname[:1])
        when = strftime("%m%d %H:%M:%S", localtime(record.created)) + f".{int(record.msecs):03d}000"
        ident = getattr(record, "compile_id", None)
        artifact = getattr(record, "artifact", None)
        path = record.pathname.removeprefix(_ROOT)
        prefix = f"{letter}{when} {get_native_id()} {path}:{record.lineno}]"
        prefix += f" [{ident}]" if ident else ""
        prefix += f" [__{artifact}]" if artifact else ""
        return "\n".join(f"{prefix} {line}" for line in message.split("\n"))


def handler() -> logging.Handler:
    """The one handler that all these logs write through: to what sys.stderr is at the time."""
    global _handler
    if _handler is None:

        _handler = logging.StreamHandler(following_stderr())
        _handler.setFormatter(_Formatter())
    return _handler


class following_stderr:
    """A stream that writes to what sys.stderr is at the time."""

    def write(self, text: str) -> int:
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()


def set_logs(*, all=None, modules=None, **levels) -> None:
    """Sets levels of logs (dynamo, aot, inductor, torchair) and switches artifacts (graph_code=True, ...).

    What is not named goes back to its default, as in PyTorch. PyTorch's other names are taken and show nothing; unknown
    ones raise ValueError. modules: levels of Python's loggers by name. Where TORCH_LOGS is
    set it says what is shown, and this warns and changes nothing.
    """
    if _C.log_settings() is not None:
        from warnings import warn

        warn("Using TORCH_LOGS environment variable for log settings, ignoring call to set_logs", stacklevel=2)
        return
    _set_logs(all, modules, levels)


def _set_logs(all, modules, levels: dict) -> None:
    unknown = [name for name in levels if name not in LOGS and name not in ARTIFACTS]
    if unknown:
        known = ", ".join([*LOGS, *ARTIFACTS])
        raise ValueError(f"Unrecognized log or artifact name passed to set_logs: {unknown[0]}; there are {known}")
    for name, logger_name in LOGS.items():
        level = levels.get(name, all)
        if not isinstance(level, (int, type(None))) or isinstance(level, bool):
            raise ValueError(f"set_logs: {name}={level!r}: a log takes a level such as logging.DEBUG")
        logger = logging.getLogger(logger_name)
        if name == "torchair" and level is None:
            continue  # has its own switch: torchair.logger.setLevel
        _levels[name] = logging.WARNING if level is None else level
        logger.setLevel(_levels[name])
        if name != "torchair" and handler() not in logger.handlers:
            logger.addHandler(handler())
        logger.propagate = False
    for name in ARTIFACTS:
        value = levels.get(name)
        if value is not None and not isinstance(value, bool):
            raise ValueError(f"set_logs: {name}={value!r}: an artifact is True or False")
        _on[name] = value
    _set_modules(modules or {})
    _internal.follow()
    _listen()


def _set_modules(modules: dict) -> None:
    """Levels of loggers by their names; those of torch's modules are ours."""
    for name, level in modules.items():
        if not isinstance(level, int):
            raise ValueError(f"set_logs: modules: {name}={level!r}: a module takes a level such as logging.DEBUG")
        own = f"narthex{name.removeprefix('torch')}" if name.split(".")[0] == "torch" else name
        logger = logging.getLogger(own)
        logger.setLevel(logging.DEBUG if level is True else level)
        if handler() not in logger.handlers:
            logger.addHandler(handler())


def enabled(artifact: str) -> bool:
    """Whether the artifact is shown."""
    if _on[artifact] is not None:
        return _on[artifact]
    log = ARTIFACTS[artifact][0]
    return log is not None and _levels[log] <= logging.DEBUG


def artifact(log: str, name: str, text: str, compile_id=None, stacklevel: int = 2, level: int = logging.DEBUG) -> None:
    """Writes an artifact if it is on, whatever the level of its log."""
    if not enabled(name):
        return
    logger = logging.getLogger(LOGS[log])
    path, line, function, _ = logger.findCaller(stacklevel=stacklevel)
    record = logger.makeRecord(
        logger.name, level, path, line, text, (), None, function, {"artifact": name, "compile_id": compile_id}
    )
    handler().handle(record)


def _listen() -> None:
    """Puts the capture engine's events through, or switches them off when nobody would see them."""
    from_capture = (
        "trace_source",
        "trace_bytecode",
        "graph",
        "graph_code",
        "graph_sizes",
        "graph_breaks",
        "guards",
        "recompiles",
        "graph_code_verbose",
        "verbose_guards",
        "recompiles_verbose",
    )
    wanted = _levels["dynamo"] <= logging.INFO or any(enabled(name) for name in from_capture)
    if wanted:
        from .._dynamo import log

        _C.set_capture_log(log.event)
    else:
        _C.set_capture_log(None)


def _read(text: str) -> dict:
    """The levels that TORCH_LOGS asks for: `+name` DEBUG, `name` INFO, `-name` ERROR; artifacts have no sign."""
    levels: dict = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        sign, name = (part[0], part[1:]) if part[0] in "+-" else ("", part)
        if name in ARTIFACTS and not sign:
            levels[name] = True
        elif name in LOGS or name == "all":
            levels[name] = {"+": logging.DEBUG, "-": logging.ERROR, "": logging.INFO}[sign]
        else:
            known = ", ".join(["all", *LOGS, *ARTIFACTS])
            raise ValueError(f"Invalid log settings: TORCH_LOGS={text}: there is no {part}; there are {known}")
    return levels


from . import _internal  # noqa: E402  (it takes the names above)
from ._internal import (  # noqa: E402
    LazyString,
    dtrace_structured,
    get_structured_logging_overhead,
    getArtifactLogger,
    hide_warnings,
    trace_structured,
    warning_once,
)

__all__ = [
    "LazyString", "dtrace_structured", "getArtifactLogger", "get_structured_logging_overhead", "hide_warnings",
    "set_logs", "trace_structured", "warning_once",
]  # fmt: skip

if _C.log_settings() is not None:
    _from_outside = _read(_C.log_settings())
    _set_logs(_from_outside.pop("all", None), None, _from_outside)
