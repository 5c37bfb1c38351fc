"""Where the parts of an installed Narthex lie: what a C program needs to build and to link."""

import os

_HERE = os.path.dirname(os.path.abspath(__file__))


def include_dir() -> str:
    """The folder with `narthex/narthex.h`: pass it to the compiler as `-I`."""
    return os.path.join(_HERE, "include")


def lib_dir() -> str:
    """The folder with `libnarthex.so` and the device plugins: pass it to the linker as `-L` and `-Wl,-rpath`."""
    return os.path.join(_HERE, "lib")


def plugin_path(name: str) -> str:
    """The device plugin `name` ("npu") that came with the package; FileNotFoundError if it did not."""
    path = os.path.join(lib_dir(), f"libnarthex_{name}.so")
    if not os.path.exists(path):
        raise FileNotFoundError(f"device plugin '{name}': {path} is not there: build Narthex with plugins/{name}")
    return path
