"""torchair: torch.compile for npus in two modes, with its configuration and logs.

config = torchair.CompilerConfig()
config.mode = "reduce-overhead"          # capture and replay; "max-autotune" (default): the graph engine
model = torch.compile(model, backend=torchair.get_npu_backend(compiler_config=config))
"""

from ..._later import names
from . import inference, npu_fx_compiler
from .configs.compiler_config import CompilerConfig
from .core.utils import logger
from .npu_fx_compiler import dynamo_export, get_compiler, get_npu_backend

__all__ = [
    "CompilerConfig", "dynamo_export", "get_compiler", "get_npu_backend", "inference", "logger", "npu_fx_compiler",
    "patch_for_hcom",
]  # fmt: skip


globals().update(
    names(
        "torchair",
        "operators reach the engine through ops/, and streams inside a graph are the engine's own",
        ("ops", "register_fx_node_ge_converter", "register_replacement", "scope"),
    )
)


def patch_for_hcom() -> None:
    """Makes collectives part of compiled graphs. In a program of one process there is nothing to change, and Narthex
    has no torch.distributed yet, so that every program is one."""
