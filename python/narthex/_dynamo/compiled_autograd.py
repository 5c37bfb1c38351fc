"""torch._dynamo.compiled_autograd: whether backward passes are graphs of their own.

The backward of what torch.compile has compiled is one graph in any case, and the autograd engine joins these graphs
with what was recorded outside of them, hooks included. With config.compiled_autograd or without, that is what runs.
"""

from contextlib import nullcontext

from .._absent import getter

compiled_autograd_enabled = False
in_compiled_autograd_region = False


def _enable(compiler_fn, dynamic: bool = True, ignore_active_disable_ctx: bool = True):
    """NotImplementedError: a backward that reaches beyond one compiled function is not handed to a compiler."""
    raise NotImplementedError(
        "torch._dynamo.compiled_autograd._enable: a whole backward is not handed to a compiler; what torch.compile has "
        "compiled has its backward as one graph, and torch._functorch.aot_autograd hands that to a compiler"
    )


def _disable():
    """A context that does nothing: no backward is handed to a compiler."""
    return nullcontext()


def reset() -> None:
    """Nothing: nothing is kept."""


__getattr__ = getter("torch._dynamo.compiled_autograd")
