"""torch.__config__: how Narthex was built, and with how many threads it computes. `narthex info` tells more."""

from . import _C


def show() -> str:
    """What stands in PyTorch's text too where it is so here: the instruction sets, and that no MKL is built in."""
    from . import narthex_version
    from ._settings_rest import __getattr__ as setting

    lapack = "enabled" if setting("has_lapack") else "disabled"
    return "\n".join([
        f"Narthex {narthex_version}, built with:",
        "  - C Version: 201112",
        f"  - LAPACK is {lapack}",
        f"  - CPU capability usage: {_C.level_name()}",
        "  - Build settings: BUILD_TYPE=Release, USE_CUDA=OFF, USE_MKL=OFF, USE_MKLDNN=OFF, USE_OPENMP=OFF, "
        "USE_NCCL=OFF, USE_MPI=OFF, ",
        "",
    ])  # fmt: skip


def _cxx_flags() -> str:
    """"": no C++ is compiled."""
    return ""


def parallel_info() -> str:
    """How many threads an operator may use, and why."""
    n, why = _C.explain_threads()
    return f"torch.get_num_threads() : {n}\n{why}\n"
