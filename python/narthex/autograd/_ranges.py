"""Ranges that a program names for profiles; here alone, so that what names some needs not load profiles."""

from __future__ import annotations

from contextlib import ContextDecorator

from .. import _C


class record_function(ContextDecorator):
    """Names what runs inside for the profile that is on in this thread; costs next to nothing when there is none."""

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.args, self._tokens = name, args, []

    def __enter__(self) -> record_function:
        self._tokens.append(_C.profile_begin(self.name) if _C.is_profiling() else None)
        return self

    def __exit__(self, *exception) -> None:
        token = self._tokens.pop()
        if token is not None:
            _C.profile_end(token)
