"""torch._dynamo.external_utils: what libraries ask from outside."""

import functools

from ..compiler import is_compiling

__all__ = ["is_compiling", "wrap_inline"]


def wrap_inline(fn):
    """A function that calls `fn`; capture follows both."""

    @functools.wraps(fn)
    def inner(*args, **kwargs):
        return fn(*args, **kwargs)

    return inner
