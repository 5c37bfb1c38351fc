"""torch.utils.collect_env: what a report of an error tells of the machine. `narthex info` tells what Narthex found."""

from __future__ import annotations

import os
import platform
import sys
from collections import namedtuple
from importlib.metadata import distributions
from shutil import which
from subprocess import run

__all__ = ["SystemEnv", "get_env_info", "get_pretty_env_info", "main", "pretty_str"]

# Each field, and how a report names it; "": a line of its own kind. An empty row is an empty line.
_ROWS = (
    ("torch_version", "PyTorch version"), ("is_debug_build", "Is debug build"),
    ("cuda_compiled_version", "CUDA used to build PyTorch"), ("hip_compiled_version", "ROCM used to build PyTorch"), (),
    ("os", "OS"), ("gcc_version", "GCC version"), ("clang_version", "Clang version"),
    ("cmake_version", "CMake version"), ("libc_version", "Libc version"), (), ("python_version", "Python version"),
    ("python_platform", "Python platform"), ("is_cuda_available", "Is CUDA available"),
    ("cuda_runtime_version", "CUDA runtime version"), ("cuda_module_loading", "CUDA_MODULE_LOADING set to"),
    ("nvidia_gpu_models", "GPU models and configuration"), ("nvidia_driver_version", "Nvidia driver version"),
    ("cudnn_version", "cuDNN version"), ("is_xpu_available", "Is XPU available"),
    ("hip_runtime_version", "HIP runtime version"), ("miopen_runtime_version", "MIOpen runtime version"),
    ("is_xnnpack_available", "Is XNNPACK available"), ("caching_allocator_config", "Caching allocator config"),
)  # fmt: skip
SystemEnv = namedtuple("SystemEnv", (
    "torch_version", "is_debug_build", "cuda_compiled_version", "gcc_version", "clang_version", "cmake_version", "os",
    "libc_version", "python_version", "python_platform", "is_cuda_available", "cuda_runtime_version",
    "cuda_module_loading", "nvidia_driver_version", "nvidia_gpu_models", "cudnn_version", "is_xpu_available",
    "pip_version", "pip_packages", "conda_packages", "hip_compiled_version", "hip_runtime_version",
    "miopen_runtime_version", "caching_allocator_config", "is_xnnpack_available", "cpu_info",
))  # fmt: skip
_LIBRARIES = ("torch", "numpy", "triton", "optree", "mypy", "flake8", "onnx", "narthex")  # parts of their names


def _said(*command: str) -> str | None:
    """What a program prints, None where there is none or it fails."""
    if which(command[0]) is None:
        return None
    done = run(command, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    return done.stdout.strip() if done.returncode == 0 else None


def _version(program: str) -> str | None:
    """The first line of what a program says of its version, without the program's name."""
    said = _said(program, "--version")
    return said and said.splitlines()[0].removeprefix(program).strip()


def _system() -> str:
    name = platform.freedesktop_os_release().get("PRETTY_NAME") if sys.platform == "linux" else platform.system()
    return f"{name} ({platform.machine()})"


def _packages() -> str:
    found = {(d.metadata["Name"], d.version) for d in distributions() if d.metadata["Name"]}
    named = sorted((n, v) for n, v in found if any(part in n.lower() for part in _LIBRARIES))
    return "\n".join(f"{name}=={version}" for name, version in named)


def get_env_info() -> SystemEnv:
    """What the machine is, as text; None for what was not found. Nothing of CUDA, XPU or ROCM is looked for."""
    from .. import __version__, narthex_version

    return SystemEnv(
        torch_version=f"{__version__} (Narthex {narthex_version})", is_debug_build="False",
        cuda_compiled_version="None", gcc_version=_version("gcc"), clang_version=_version("clang"),
        cmake_version=_version("cmake"), os=_system(), libc_version="-".join(platform.libc_ver()),
        python_version=f"{sys.version.replace(chr(10), ' ')} ({sys.maxsize.bit_length() + 1}-bit runtime)",
        python_platform=platform.platform(), is_cuda_available="False", cuda_runtime_version="N/A",
        cuda_module_loading="N/A", nvidia_driver_version="N/A", nvidia_gpu_models="N/A", cudnn_version="N/A",
        is_xpu_available="False", pip_version="pip3", pip_packages=_packages(), conda_packages="",
        hip_compiled_version="N/A", hip_runtime_version="N/A", miopen_runtime_version="N/A",
        caching_allocator_config="N/A", is_xnnpack_available="False", cpu_info=_said("lscpu"),
    )  # fmt: skip


def pretty_str(envinfo: SystemEnv) -> str:
    """The report, a line a fact; packages behind the program that tells of them."""
    told = {name: "Could not collect" if value is None else value for name, value in envinfo._asdict().items()}
    lines = [f"{row[1]}: {told[row[0]]}" if row else "" for row in _ROWS]
    packages = [f"[{told['pip_version']}] {line}" for line in told["pip_packages"].splitlines()]
    packages = packages or ["No relevant packages"]
    packages += [f"[conda] {line}" for line in told["conda_packages"].splitlines()]
    return "\n".join([*lines, "", "CPU:", told["cpu_info"], "", "Versions of relevant libraries:", *packages])


def get_pretty_env_info() -> str:
    """The report of this machine."""
    return pretty_str(get_env_info())


def main() -> None:
    """Prints the report."""
    print("Collecting environment information...")
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
