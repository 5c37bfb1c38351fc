"""What a program asks for and Narthex does not have: errors that say so, and the list for `narthex run`."""

asked: dict = {}  # full names, in the order in which they were first asked for


def _is_imported(module: str, name: str) -> bool:
    """Whether a module's `__getattr__` is asked by `from module import name`, for which an AttributeError would become
    Python's own words. A submodule that is being imported is left to Python."""
    import sys
    from opcode import opmap

    from . import _C

    if _C.is_capturing():  # names of modules are read by capture itself, imports end a graph
        return False
    frame = sys._getframe(2)
    while frame is not None and frame.f_code.co_name in ("__getattr__", "getattr_"):
        frame = frame.f_back
    if frame is None or frame.f_lasti < 0 or frame.f_code.co_code[frame.f_lasti] != opmap["IMPORT_FROM"]:
        return False
    own = module.replace("torch", "narthex", 1)
    return f"{module}.{name}" not in sys.modules and f"{own}.{name}" not in sys.modules


def absent(module: str, name: str, instead: str = "") -> AttributeError | ImportError:
    """The error for `module` ("torch.nn") having no `name`, which is noted; `instead` says what there is. It is an
    ImportError for `from torch.nn import name`."""
    from . import narthex_version

    if not name.startswith("_"):  # `from . import _run` asks, too
        asked[f"{module}.{name}"] = None
    hint = f" ({instead})" if instead else ""
    lack = f"Narthex {narthex_version} does not have it{hint}"
    if _is_imported(module, name):
        return ImportError(f"cannot import name '{name}' from '{module}': {lack}", name=module)
    return AttributeError(f"module '{module}' has no attribute '{name}': {lack}")


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
