"""torch.utils.cpp_extension: what is compiled against PyTorch's headers does not fit Narthex. Packages that offer such
code beside Python's import these names; building or loading raises."""

import os

from .._absent import getter
from .._later import class_for

__all__ = ["BuildExtension", "CUDAExtension", "CppExtension", "SyclExtension", "check_compiler_is_gcc",
           "check_compiler_ok_for_platform", "get_compiler_abi_compatibility_and_version", "get_cxx_compiler",
           "get_default_build_root", "include_paths", "is_ninja_available", "library_paths", "load", "load_inline",
           "remove_extension_h_precompiler_headers", "verify_ninja_availability"]  # fmt: skip

CUDA_HOME = ROCM_HOME = CUDNN_HOME = SYCL_HOME = None
IS_HIP_EXTENSION = IS_WINDOWS = IS_MACOS = False
IS_LINUX = True
_INSTEAD = (
    "code in C++ against PyTorch's headers fits PyTorch alone: leave the extension out, write the operator in Python "
    "(torch.library.custom_op), or in C against narthex.h"
)


def _refuse(name: str):
    raise NotImplementedError(f"torch.utils.cpp_extension.{name} is not there: {_INSTEAD}")


CppExtension = class_for(f"{__name__}.CppExtension", _INSTEAD)
CUDAExtension = class_for(f"{__name__}.CUDAExtension", _INSTEAD)
SyclExtension = class_for(f"{__name__}.SyclExtension", _INSTEAD)


class BuildExtension:
    """Not there yet: what a setup.py may name as its build_ext; making one raises."""

    def __init__(self, *args, **kwargs) -> None:
        _refuse("BuildExtension")

    @classmethod
    def with_options(cls, **options) -> type:
        """The class itself, which raises whatever the options are."""
        return cls


def load(name, sources, *args, **kwargs):
    """Raises."""
    _refuse("load")


def load_inline(name, cpp_sources, *args, **kwargs):
    """Raises."""
    _refuse("load_inline")


def include_paths(device_type: str = "cpu", torch_include_dirs: bool = True) -> list:
    """Raises: PyTorch's headers are not there."""
    _refuse("include_paths")


def library_paths(device_type: str = "cpu", torch_include_dirs: bool = True, cross_target_platform=None) -> list:
    """Raises: PyTorch's libraries are not there."""
    _refuse("library_paths")


def get_default_build_root() -> str:
    """The folder of the user's in which PyTorch builds."""
    return os.path.realpath(os.path.expanduser("~/.cache/torch_extensions"))


def get_cxx_compiler() -> str:
    """The C++ compiler's name: CXX, or c++."""
    return os.environ.get("CXX", "c++")


def _said(*command: str) -> str | None:
    import subprocess

    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None


def check_compiler_is_gcc(compiler) -> bool:
    """Whether the compiler calls itself GNU's."""
    return "Free Software Foundation" in (_said(compiler, "--version") or "")


def check_compiler_ok_for_platform(compiler: str) -> bool:
    """Whether there is such a compiler."""
    return _said(compiler, "--version") is not None


def get_compiler_abi_compatibility_and_version(compiler) -> tuple:
    """(whether it is there, its version or 0.0.0)."""
    from ..version import __version__

    version = _said(compiler, "-dumpfullversion", "-dumpversion")
    return version is not None, type(__version__)((version or "0.0.0").strip())


def is_ninja_available() -> bool:
    """Whether the build program ninja is there."""
    return _said("ninja", "--version") is not None


def verify_ninja_availability() -> None:
    """Raises RuntimeError where ninja is not."""
    if not is_ninja_available():
        raise RuntimeError("Ninja is required to load C++ extensions (pip install ninja to get it)")


def remove_extension_h_precompiler_headers() -> None:
    """Nothing: there are none."""


__getattr__ = getter("torch.utils.cpp_extension")
