"""What a program asks for and Narthex does not have: AttributeErrors that say so, and the list for `narthex run`."""

asked: dict = {}  # full names, in the order in which they were first asked for


def absent(module: str, name: str, instead: str = "") -> AttributeError:
    """The error for `module` ("torch.nn") having no `name`, which is noted; `instead` says what there is."""
    from . import narthex_version

    if not name.startswith("_"):  # `from . import _run` asks, too
        asked[f"{module}.{name}"] = None
    hint = f" ({instead})" if instead else ""
    text = f"module '{module}' has no attribute '{name}': Narthex {narthex_version} does not have it{hint}"
    return AttributeError(text)


def getter(module: str):
    """A `__getattr__` for `module` that knows no name."""

    def getattr_(name: str):
        raise absent(module, name)

    return getattr_


def tell() -> None:
    """One line on standard error when something was asked for in vain; `narthex run` calls it at exit."""
    import sys

    if asked:
        print(f"narthex run: asked for and not there: {', '.join(asked)}", file=sys.stderr)
    settings = sys.modules.get("narthex.utils._config_module")
    if settings is not None and settings.without_effect:
        print(f"narthex run: set and without effect: {', '.join(settings.without_effect)}", file=sys.stderr)
