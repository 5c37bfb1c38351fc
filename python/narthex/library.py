"""torch.library: operators defined in Python. Not there yet; what is here says so when it is used."""

_WHY = "operators are entries in ops/ so far (docs/add-an-operator.md); neither Python nor a plugin can add one"


class Library:
    """A namespace's definitions. Making one is allowed; define, impl and fallback raise NotImplementedError."""

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("DEF", "IMPL", "FRAGMENT"):
            raise ValueError(f"Library: unsupported kind: {kind}; it is DEF, IMPL or FRAGMENT")
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def define(self, schema: str, alias_analysis: str = "", *, tags=()):
        """Raises NotImplementedError."""
        raise NotImplementedError(f"Library.define({schema!r}): {_WHY}")

    def impl(self, op_name, fn, dispatch_key: str = "", *, with_keyset: bool = False):
        """Raises NotImplementedError."""
        raise NotImplementedError(f"Library.impl({op_name!r}): {_WHY}")

    def fallback(self, fn, dispatch_key: str = "", *, with_keyset: bool = False):
        """Raises NotImplementedError."""
        raise NotImplementedError(f"Library.fallback: {_WHY}")


def define(qualname: str, schema=None, *, lib=None, tags=()):
    """Raises NotImplementedError."""
    raise NotImplementedError(f"library.define({qualname!r}): {_WHY}")


def impl(qualname: str, types, func=None, *, lib=None):
    """Raises NotImplementedError."""
    raise NotImplementedError(f"library.impl({qualname!r}): {_WHY}")


def custom_op(name: str, fn=None, /, *, mutates_args=(), device_types=None, schema=None):
    """Raises NotImplementedError."""
    raise NotImplementedError(f"library.custom_op({name!r}): {_WHY}")
