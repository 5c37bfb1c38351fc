"""Read first by a Python that a program under `narthex run` starts: torch is Narthex there as well.

`narthex run` puts this folder in front of PYTHONPATH. Narthex is imported when torch, or what is installed, is first
asked for; in an environment without Narthex nothing changes. The environment's own sitecustomize is run as if this one
were not there.
"""

import os
import sys


class _First:
    """Stands before the path until the first question about torch."""

    @classmethod
    def _installed(cls) -> list:
        """The finder that now stands in front: one, or none where Narthex is not installed or stood there before."""
        if cls not in sys.meta_path:
            return []
        try:
            from narthex import _run
        except ModuleNotFoundError as error:
            if error.name != "narthex":
                raise
            sys.meta_path.remove(cls)
            return []
        return _run.install_in_child(cls)

    @classmethod
    def find_spec(cls, name: str, path=None, target=None):
        if name.partition(".")[0] in ("torch", "functorch", "torch_npu", "torchair"):
            for finder in cls._installed():
                return finder.find_spec(name, path, target)
        return None

    @classmethod
    def find_distributions(cls, context) -> list:
        if context.name is None or context.name.lower() == "torch":
            for finder in cls._installed():
                return finder.find_distributions(context)
        return []


def _run_the_environments_own() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != here]
    mine = sys.modules.pop("sitecustomize")
    try:
        import sitecustomize  # noqa: F401
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        sys.modules.setdefault("sitecustomize", mine)


sys.meta_path.insert(0, _First)
_run_the_environments_own()
