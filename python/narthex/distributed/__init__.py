"""torch.distributed: several processes are not there yet. Questions are answered, the rest raises."""

from enum import Enum

from .._absent import getter
from .._later import names, never
from ._parts import make_modules

_NO_GROUP = "Default process group has not been initialized, please make sure to call init_process_group."


def is_available() -> bool:
    """False, so that a program leaves it alone."""
    return False


globals().update(never("torch.distributed", "several processes are not there", (
    "is_initialized", "is_nccl_available", "is_gloo_available", "is_mpi_available",
)))  # fmt: skip


def is_torchelastic_launched() -> bool:
    """Whether torchrun has started this process."""
    from os import environ

    return environ.get("TORCHELASTIC_RUN_ID") is not None


def get_rank(group=None) -> int:
    """Raises ValueError: there is no process group."""
    raise ValueError(_NO_GROUP)


def get_world_size(group=None) -> int:
    """Raises ValueError: there is no process group."""
    raise ValueError(_NO_GROUP)


class group:  # noqa: N801
    """Names of process groups: there is none, as before init_process_group."""

    WORLD = None


class GroupMember(group):
    """The same by its older name, and what stands for a group that a process is no member of."""

    NON_GROUP_MEMBER = -100


class ReduceOp(Enum):
    """How what several processes have becomes one: names, which programs give as defaults of their own functions."""

    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = range(9)


_LATER = (
    "init_process_group", "destroy_process_group", "all_reduce", "all_gather", "broadcast", "barrier", "reduce",
    "ProcessGroup", "Store", "Work",
)  # fmt: skip
globals().update(names("torch.distributed", "run one process", _LATER))
make_modules(__name__, globals())

__getattr__ = getter("torch.distributed")
