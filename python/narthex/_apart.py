"""Functions that are never captured: torch.compiler.disable."""

from functools import partial, update_wrapper


class _Apart(partial):
    """A function that is never captured: C code that the tracer does not know calls it."""

    def __get__(self, instance, owner=None):
        return self if instance is None else _Apart(self.func, instance)


def disable(fn=None, recursive: bool = True):
    """A callable like `fn` that is never captured: a call of it splits the graph and runs uncompiled. What it calls
    runs uncompiled too, also with recursive=False, where PyTorch compiles that again."""
    return disable if fn is None else update_wrapper(_Apart(fn), fn)
