"""torch._inductor: names of PyTorch's compiler that programs ask for. What compiles here is the engine
(torch.compile)."""

from .._absent import getter
from . import config as config

__all__ = ["compile", "config", "cudagraph_mark_step_begin", "list_mode_options", "list_options"]


def compile(gm, example_inputs: list, options: dict | None = None):
    """A callable of the graph, compiled by the engine."""
    from .._compile import compile

    return compile(gm, options=options)


def list_mode_options(mode: str | None = None, dynamic: bool | None = None) -> dict:
    """The options that each mode stands for, or those of one."""
    from .._dynamo.backends import MODE_OPTIONS

    modes = {"default": {}, **{name: dict(options) for name, options in MODE_OPTIONS.items()}}
    return modes[mode] if mode else modes


def list_options() -> list:
    """The names of torch._inductor.config, which torch.compile takes as options."""
    return sorted(config.shallow_copy_dict())


def cudagraph_mark_step_begin() -> None:
    """torch.compiler.cudagraph_mark_step_begin."""
    from ..compiler import cudagraph_mark_step_begin

    cudagraph_mark_step_begin()


__getattr__ = getter("torch._inductor")
