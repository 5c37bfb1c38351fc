"""`narthex run`: a PyTorch program with Narthex in torch's place.

A meta path finder answers for torch, functorch, torch_npu and torchair and everything below them: with the module
objects of Narthex, never with second copies. What Narthex lacks is a ModuleNotFoundError that says so. Processes that
the program starts find the same: those of multiprocessing by what they are told first (_InChild), every other Python by
PYTHONPATH (_child/sitecustomize.py).
"""

import atexit
import sys
from importlib import import_module
from importlib.machinery import ModuleSpec

from ._absent import asked, tell

# The longest prefix wins.
_PLACES = (
    ("torch_npu.dynamo.torchair", "narthex.compat.torchair"),
    ("torch_npu", "narthex.compat.torch_npu"),
    ("torchair", "narthex.compat.torchair"),
    ("functorch", "narthex._functorch.front"),
    ("torch", "narthex"),
)


def _real_name(name: str):
    for prefix, place in _PLACES:
        if name == prefix or name.startswith(prefix + "."):
            return place + name[len(prefix) :]
    return None


# Packages that are there for programs that import them, and not for those that ask whether they are installed: who asks
# takes them for an accelerator's machine and puts everything there.
_UNSEEN = ("torch_npu", "torchair")


def _only_asks(frame) -> bool:
    """Whether the finder is called for importlib.util.find_spec(), not for an import."""
    while frame is not None and frame.f_globals.get("__name__") in ("importlib._bootstrap", "sitecustomize"):
        frame = frame.f_back
    return frame is not None and frame.f_globals.get("__name__") == "importlib.util"


class _Finder:
    """Finds torch's names; loads by handing over Narthex's module."""

    @staticmethod
    def find_spec(name: str, path=None, target=None):
        real = _real_name(name)
        if real is None or (name in _UNSEEN and _only_asks(sys._getframe(1))):
            return None
        try:
            module = import_module(real)
        except ModuleNotFoundError as error:
            if error.name is None or not (real + ".").startswith(error.name + "."):
                raise
            asked[name] = None
            raise ModuleNotFoundError(f"No module named '{name}': Narthex does not have it", name=name) from None
        return ModuleSpec(name, _Loader(module), is_package=hasattr(module, "__path__"))

    @staticmethod
    def find_distributions(context) -> list:
        """Of importlib.metadata: torch is installed, whether PyTorch is or not."""
        if context.name is not None and context.name.lower() != "torch":
            return []
        from ._distribution import InPlaceOfTorch

        return [InPlaceOfTorch()]


class _Loader:
    def __init__(self, module) -> None:
        self.module, self.spec = module, module.__spec__

    def create_module(self, spec):
        return self.module

    def exec_module(self, module) -> None:
        module.__spec__ = self.spec  # the import system put ours there

    def get_code(self, name: str):
        """For `-m torch...`."""
        return self.spec.loader.get_code(self.spec.name)


class _InChild:
    """Pickled into what a new interpreter of multiprocessing reads first: there torch is Narthex as well."""

    def __reduce__(self):
        return install, ()


class _SpawnFinder:
    """Waits for multiprocessing.spawn, whose children are to begin with an _InChild."""

    @classmethod
    def find_spec(cls, name: str, path=None, target=None):
        if name != "multiprocessing.spawn":
            return None
        from importlib.machinery import PathFinder

        sys.meta_path.remove(cls)
        spec = PathFinder.find_spec(name, path)
        execute = spec.loader.exec_module

        def exec_module(module) -> None:
            execute(module)
            tell_child(module)

        spec.loader.exec_module = exec_module
        return spec


def tell_child(spawn) -> None:
    """Makes multiprocessing's new interpreters install() before they import the program."""
    prepare = spawn.get_preparation_data
    spawn.get_preparation_data = lambda name: {"narthex": _InChild(), **prepare(name)}


def install(instead_of=None) -> None:
    """Makes `import torch` mean Narthex in this process and in those of multiprocessing, by a finder that stands first,
    or instead of another one.

    Fails if PyTorch is loaded already.
    """
    if _Finder in sys.meta_path:
        return
    loaded = sys.modules.get("torch")
    if loaded is not None and loaded is not sys.modules.get("narthex"):
        raise ImportError("narthex run: PyTorch is already imported in this process")
    if instead_of is None:
        sys.meta_path.insert(0, _Finder)
    else:  # in its place, since somebody may be walking along the list
        sys.meta_path[sys.meta_path.index(instead_of)] = _Finder
    narthex = sys.modules[__package__]
    narthex.__name__ = narthex.Tensor.__module__ = "torch"  # what programs print, and look for in texts
    if "multiprocessing.spawn" in sys.modules:
        tell_child(sys.modules["multiprocessing.spawn"])
    else:
        sys.meta_path.insert(sys.meta_path.index(_Finder) + 1, _SpawnFinder)


def install_in_child(instead_of) -> list:
    """install() in a Python that the program started, which tells at its own exit unless it works for multiprocessing.
    The finder; none where torch is Narthex already."""
    if _Finder in sys.meta_path:
        sys.meta_path.remove(instead_of)
        return []
    install(instead_of)
    if "--multiprocessing-fork" not in sys.argv:
        atexit.register(tell)
    return [_Finder]


def _reach_children() -> None:
    """Puts the folder of the children's sitecustomize in front of PYTHONPATH, once."""
    from os import environ, pathsep
    from os.path import dirname, join

    folder, rest = join(dirname(__file__), "_child"), environ.get("PYTHONPATH")
    if rest is None or folder not in rest.split(pathsep):
        environ["PYTHONPATH"] = folder + (pathsep + rest if rest else "")


def _begin() -> None:
    """What comes before any program."""
    install()
    _reach_children()
    atexit.register(tell)
    sys.excepthook = _show_program_only


def _show_program_only(kind, error, trace) -> None:
    """sys.excepthook: the traceback from the program's own first frame on; what a tensor was asked for is noted."""
    starts, own = (run_script.__code__, run_module.__code__), (__file__, "<frozen runpy>")
    shown = trace
    while shown is not None and shown.tb_frame.f_code not in starts:
        shown = shown.tb_next
    while shown is not None and shown.tb_frame.f_code.co_filename in own:
        shown = shown.tb_next
    if shown is None and not issubclass(kind, SyntaxError):
        shown = trace  # not of the program
    if isinstance(error, AttributeError) and error.name is not None:
        from ._tensor import Tensor

        if type(error.obj) is Tensor or error.obj is Tensor:
            asked[f"torch.Tensor.{error.name}"] = None
    sys.__excepthook__(kind, error.with_traceback(shown), shown)


def run_script(path: str, arguments: list) -> None:
    """Runs a file as __main__ with sys.argv = [path, *arguments]."""
    import os
    from types import ModuleType

    with open(path, "rb") as file:
        source = file.read()
    _begin()
    sys.argv = [path, *arguments]
    sys.path[0:1] = [os.path.dirname(os.path.abspath(path))]
    main = ModuleType("__main__")
    main.__file__ = path
    main.__builtins__ = __builtins__
    sys.modules["__main__"] = main
    exec(compile(source, os.path.abspath(path), "exec"), main.__dict__)


def run_module(name: str, arguments: list) -> None:
    """Runs a module as `python -m name arguments` does."""
    import runpy

    _begin()
    sys.argv = [name, *arguments]
    sys.path.insert(0, "")
    try:
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    except ImportError as error:
        last = error.__traceback__
        while last.tb_next is not None:
            last = last.tb_next
        if last.tb_frame.f_code.co_filename != "<frozen runpy>":
            raise
        raise SystemExit(f"narthex run: {error}") from None  # there is no such module
