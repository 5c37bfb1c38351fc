"""torch._logging._internal: what programs that log as the compiler does reach for."""

import functools
import logging
import warnings
from contextlib import contextmanager

from . import ARTIFACTS, enabled, handler, set_logs

__all__ = [
    "LazyString", "dtrace_structured", "get_structured_logging_overhead", "getArtifactLogger", "hide_warnings",
    "set_logs", "trace_structured", "trace_structured_artifact", "warning_once",
]  # fmt: skip

of_artifacts: dict = {}  # loggers that getArtifactLogger has given -> the artifact's name
_RESERVED = (
    "rank", "compiled_autograd_id", "frame_id", "frame_compile_id", "attempt", "severity", "timestamp", "pathname",
    "thread", "subgraph_name",
)  # fmt: skip


def getArtifactLogger(module_qname: str, artifact_name: str) -> logging.Logger:  # noqa: N802 - PyTorch's name
    """The logger of an artifact in a module: what it is told is shown while set_logs has the artifact on. ValueError:
    there is no such artifact."""
    if artifact_name not in ARTIFACTS:
        raise ValueError(
            f"Artifact name: {artifact_name!r} not registered,please call register_artifact({artifact_name!r}) in "
            "torch._logging.registrations."
        )
    logger = logging.getLogger(f"{module_qname}.__{artifact_name}")
    if logger not in of_artifacts:
        of_artifacts[logger] = logger.artifact_name = artifact_name
        logger.propagate = False
        logger.addHandler(handler())
        logger.addFilter(_marks)
    follow()
    return logger


def _marks(record: logging.LogRecord) -> bool:
    record.artifact = record.name.rpartition(".__")[2]
    return True


def follow() -> None:
    """The loggers of artifacts are shown as set_logs says."""
    for logger, name in of_artifacts.items():
        logger.setLevel(logging.DEBUG if enabled(name) else logging.WARNING)


@functools.lru_cache(None)
def warning_once(logger_obj, *args, **kwargs) -> None:
    """logger_obj.warning(...), once for what it is given, whoever gives it."""
    logger_obj.warning(*args, **kwargs)


@contextmanager
def hide_warnings(filter_fn=lambda *args, **kwargs: True):
    """Inside, warnings are shown that filter_fn(message, category, file, line, ...) says True of."""
    show = warnings.showwarning

    def shown(*args, **kwargs) -> None:
        if filter_fn(*args, **kwargs):
            show(*args, **kwargs)

    try:
        warnings.showwarning = shown
        yield
    finally:
        warnings.showwarning = show


class LazyString:
    """A text that is made when it is needed: func(*args, **kwargs)."""

    def __init__(self, func, *args, **kwargs) -> None:
        self.func, self.args, self.kwargs = func, args, kwargs

    def __str__(self) -> str:
        return self.func(*self.args, **self.kwargs)


def trace_structured(name: str, metadata_fn=dict, *, payload_fn=lambda: None, **more) -> None:
    """Nothing, as in PyTorch where TORCH_TRACE is not set: there is no trace that it could be written to."""
    if name in _RESERVED:
        raise AssertionError(f"name {name!r} is reserved and cannot be used")


dtrace_structured = trace_structured


def trace_structured_artifact(name: str, encoding: str, payload_fn=lambda: None, compile_id=None) -> None:
    """The same."""


def get_structured_logging_overhead() -> float | None:
    """None: no time is spent."""
